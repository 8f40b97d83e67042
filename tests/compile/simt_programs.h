// Tile-level programs of the kinds that tiling makes for GPUs, as text. Sizes are odd on purpose.
#pragma once

#include <string>
#include <vector>

namespace heddle::testing {

struct SimtProgram {
  const char* name;
  const char* text;
  double tolerance = 0;  // relative; where sums of floats are associated differently
};

inline const std::vector<SimtProgram>& simt_programs() {
  static const std::vector<SimtProgram> programs = {
      {"elementwise", R"(
kernel @elementwise(in %x: f32[1000], in %y: f32[1000], out %z: f32[1000]) {
  phase grid(c < 4) {
    %a = load %x[c * 256 + d0] if c * 256 + d0 < 1000 : tile<256xf32>
    %b = load %y[c * 256 + d0] if c * 256 + d0 < 1000 : tile<256xf32>
    %two = constant 2.5 : f32
    %s = mul %a, %two
    %t = add %s, %b
    store %z[c * 256 + d0], %t if c * 256 + d0 < 1000
  }
}
)"},
      {"elementwise_odd", R"(
kernel @elementwise_odd(in %x: f32[777], out %z: f32[777]) {
  phase grid(c < 8) {
    %a = load %x[c * 100 + d0] if c * 100 + d0 < 777 : tile<100xf32>
    %t = neg %a
    store %z[c * 100 + d0], %t if c * 100 + d0 < 777
  }
}
)"},
      {"constant_fill", R"(
kernel @constant_fill(out %z: f32[512]) {
  phase grid(c < 2) {
    %a = constant 3 : tile<256xf32>
    store %z[c * 256 + d0], %a
  }
}
)"},
      {"transpose", R"(
kernel @transpose(in %x: f32[2048], out %z: f32[2048]) {
  phase grid(c < 2) {
    %a = load %x[d1 * 64 + c * 32 + d0] : tile<32x32xf32>
    store %z[(c * 32 + d0) * 32 + d1], %a
  }
}
)"},
      {"in_place", R"(
kernel @in_place(inout %x: f32[1024], in %g: f32[1024]) {
  phase grid(c < 2) {
    %a = load %x[c * 512 + d0] : tile<512xf32>
    %g1 = load %g[c * 512 + d0] : tile<512xf32>
    %s = sub %a, %g1
    store %x[c * 512 + d0], %s
  }
}
)"},
      {"reverse_in_place", R"(
kernel @reverse_in_place(inout %x: f32[600], out %y: f32[600]) {
  phase grid(c < 2) {
    %a = load %x[c * 300 + d0] : tile<300xf32>
    store %x[c * 300 + 299 - d0], %a
    store %y[c * 300 + d0], %a
  }
}
)"},
      {"softmax", R"(
kernel @softmax(in %x: f32[4000], out %y: f32[4000]) {
  phase grid(row < 4) {
    %v = load %x[row * 1000 + d1] : tile<1x1000xf32>
    %m = reduce maximum %v axis 1
    %d = sub %v, %m
    %e = exp %d
    %s = reduce add %e axis 1
    %q = div %e, %s
    store %y[row * 1000 + d1], %q
  }
}
)",
       1e-5},
      {"layernorm_rows", R"(
kernel @layernorm_rows(in %x: f32[1900], out %y: f32[1900], out %mean: f32[19]) {
  phase grid(c < 3) {
    %v = load %x[(c * 8 + d0) * 100 + d1] if c * 8 + d0 < 19 : tile<8x100xf32>
    %n = constant 0.01 : f32
    %s = reduce add %v axis 1
    %mu = mul %s, %n
    %d = sub %v, %mu
    %d2 = mul %d, %d
    %ss = reduce add %d2 axis 1
    %var = mul %ss, %n
    %eps = constant 1e-05 : f32
    %ve = add %var, %eps
    %sd = sqrt %ve
    %r = div %d, %sd
    store %y[(c * 8 + d0) * 100 + d1], %r if c * 8 + d0 < 19
    store %mean[c * 8 + d0], %mu if c * 8 + d0 < 19
  }
}
)",
       1e-4},
      {"padded_row", R"(
kernel @padded_row(in %x: f32[300], out %y: f32[3]) {
  phase grid(row < 3) {
    %v = load %x[row * 100 + d1] if d1 < 100 : tile<1x128xf32>
    %p = reduce minimum %v axis 1 if d1 < 100
    %q = reduce mul %v axis 1 if d1 < 7
    %t = add %p, %q
    store %y[row], %t
  }
}
)",
       1e-5},
      {"looped_sum", R"(
kernel @looped_sum(in %x: f32[5000], out %y: f32[5]) {
  phase grid(row < 5) {
    %zero = constant 0 : tile<1x96xf32>
    %acc = loop i < 11 carry(%a = %zero) {
      %v = load %x[row * 1000 + i * 96 + d1] if i * 96 + d1 < 1000 : tile<1x96xf32>
      %n = add %a, %v
      yield %n
    }
    %s = reduce add %acc axis 1
    store %y[row], %s
  }
}
)",
       1e-4},
      {"online_rows", R"(
kernel @online_rows(in %x: f32[3000], out %y: f32[3000]) {
  phase grid(c < 2) {
    %low = constant -inf : tile<5x1xf32>
    %zero = constant 0 : tile<5x1xf32>
    %m, %s = loop i < 5 carry(%m0 = %low, %s0 = %zero) {
      %v = load %x[(c * 5 + d0) * 300 + i * 64 + d1] if i * 64 + d1 < 300 : tile<5x64xf32>
      %bm = reduce maximum %v axis 1 if i * 64 + d1 < 300
      %m1 = maximum %m0, %bm
      %d = sub %v, %m1
      %e = exp2 %d
      %bs = reduce add %e axis 1 if i * 64 + d1 < 300
      %dm = sub %m0, %m1
      %scale = exp2 %dm
      %old = mul %s0, %scale
      %s1 = add %old, %bs
      yield %m1, %s1
    }
    loop j < 5 {
      %w = load %x[(c * 5 + d0) * 300 + j * 64 + d1] if j * 64 + d1 < 300 : tile<5x64xf32>
      %wd = sub %w, %m
      %we = exp2 %wd
      %r = div %we, %s
      store %y[(c * 5 + d0) * 300 + j * 64 + d1], %r if j * 64 + d1 < 300
    }
  }
}
)",
       1e-4},
      {"variance_by_dot", R"(
kernel @variance_by_dot(in %x: f32[64], out %y: f32[64]) {
  phase grid() {
    %zero = constant 0 : tile<8x1xf32>
    %sum = loop i < 2 carry(%s0 = %zero) {
      %v = load %x[d0 * 8 + i * 7 + d1] if i * 7 + d1 < 8 : tile<8x7xf32>
      %part = reduce add %v axis 1 if i * 7 + d1 < 8
      %s1 = add %s0, %part
      yield %s1
    }
    %n = constant 0.125 : f32
    %squares = loop j < 2 carry(%q0 = %zero) {
      %w = load %x[d0 * 8 + j * 4 + d1] : tile<8x4xf32>
      %mu = mul %sum, %n
      %d = sub %w, %mu
      %q1 = dot %d, %d, %q0 axis 1
      yield %q1
    }
    %u = load %x[d0 * 8 + d1] : tile<8x8xf32>
    %mean = mul %sum, %n
    %c = sub %u, %mean
    %sd = sqrt %squares
    %r = div %c, %sd
    store %y[d0 * 8 + d1], %r
  }
}
)",
       1e-4},
      {"sum_from_another_layout", R"(
kernel @sum_from_another_layout(in %x: i32[72], out %y: i32[9], out %z: i32[9]) {
  phase grid() {
    %v = load %x[d0 * 8 + d1] if d1 < 7 : tile<9x7xi32>
    %s = reduce add %v axis 1
    %q = loop j < 2 carry(%q0 = %s) {
      %w = load %x[d0 * 8 + j * 4 + d1] : tile<9x4xi32>
      %q1 = dot %w, %w, %q0 axis 1
      yield %q1
    }
    %m = loop k < 4 carry(%m0 = %s) {
      %u = load %x[d0 * 8 + k * 2 + d1] : tile<9x2xi32>
      %m1 = reduce maximum %u axis 1
      yield %m1
    }
    store %y[d0], %q
    store %z[d0], %m
  }
}
)"},
      {"swapped_between_layouts", R"(
kernel @swapped_between_layouts(in %x: i32[72], out %y: i32[9], out %z: i32[9]) {
  phase grid() {
    %v = load %x[d0 * 8 + d1] if d1 < 7 : tile<9x7xi32>
    %s = reduce add %v axis 1
    %w = load %x[d0 * 8 + d1] : tile<9x3xi32>
    %t = reduce maximum %w axis 1
    %p, %q = loop j < 3 carry(%a = %s, %b = %t) {
      yield %b, %t
    }
    store %y[d0], %p
    store %z[d0], %q
  }
}
)"},
      {"large_sum_from_another_layout", R"(
kernel @large_sum_from_another_layout(in %x: i32[36000], out %y: i32[9000]) {
  phase grid() {
    %v = load %x[d0 * 4 + d1] if d1 < 3 : tile<9000x3xi32>
    %s = reduce add %v axis 1
    %q = loop j < 2 carry(%q0 = %s) {
      %w = load %x[d0 * 4 + j * 2 + d1] : tile<9000x2xi32>
      %q1 = dot %w, %w, %q0 axis 1
      yield %q1
    }
    store %y[d0], %q
  }
}
)"},
      {"column_sums", R"(
kernel @column_sums(in %x: f32[6000], out %y: f32[100]) {
  phase grid(c < 4) {
    %v = load %x[d1 * 100 + c * 32 + d0] if c * 32 + d0 < 100 && d1 < 60 : tile<32x64xf32>
    %s = reduce add %v axis 1
    store %y[c * 32 + d0], %s if c * 32 + d0 < 100
  }
}
)",
       1e-4},
      {"column_sums_vector", R"(
kernel @column_sums_vector(in %x: f32[8192], out %y: f32[128]) {
  phase grid(c < 1) {
    %v = load %x[d1 * 128 + d0] : tile<128x64xf32>
    %s = reduce add %v axis 1
    store %y[d0], %s
  }
}
)",
       1e-4},
      {"matmul_staged", R"(
kernel @matmul_staged(in %a: f32[6000], in %b: f32[4200], out %c: f32[7000]) {
  shared %as: f32[1024]
  shared %bs: f32[1024]
  phase grid(m < 2, n < 2) {
    %zero = constant 0 : tile<64x64x1xf32>
    %acc = loop k < 4 carry(%c0 = %zero) {
      %ga = load %a[(m * 64 + d0) * 60 + k * 16 + d2] if m * 64 + d0 < 100 && k * 16 + d2 < 60 : tile<64x1x16xf32>
      store %as[d0 * 16 + d2], %ga
      %gb = load %b[(k * 16 + d2) * 70 + n * 64 + d1] if n * 64 + d1 < 70 && k * 16 + d2 < 60 : tile<1x64x16xf32>
      store %bs[d2 * 64 + d1], %gb
      %la = load %as[d0 * 16 + d2] : tile<64x1x16xf32>
      %lb = load %bs[d2 * 64 + d1] : tile<1x64x16xf32>
      %c1 = dot %la, %lb, %c0 axis 2
      yield %c1
    }
    store %c[(m * 64 + d0) * 70 + n * 64 + d1], %acc if m * 64 + d0 < 100 && n * 64 + d1 < 70
  }
}
)",
       1e-4},
      {"matmul_direct", R"(
kernel @matmul_direct(in %a: f32[1300], in %b: f32[2600], out %c: f32[800], in %bias: f32[40]) {
  phase grid(m < 2, n < 2) {
    %zero = constant 0 : tile<16x32x1xf32>
    %acc = loop k < 3 carry(%c0 = %zero) {
      %ga = load %a[(m * 16 + d0) * 65 + k * 24 + d2] if m * 16 + d0 < 20 && k * 24 + d2 < 65 : tile<16x1x24xf32>
      %gb = load %b[(k * 24 + d2) * 40 + n * 32 + d1] if n * 32 + d1 < 40 && k * 24 + d2 < 65 : tile<1x32x24xf32>
      %c1 = dot %ga, %gb, %c0 axis 2 if k * 24 + d2 < 65
      yield %c1
    }
    %v = load %bias[n * 32 + d1] if n * 32 + d1 < 40 : tile<1x32x1xf32>
    %r = add %acc, %v
    store %c[(m * 16 + d0) * 40 + n * 32 + d1], %r if m * 16 + d0 < 20 && n * 32 + d1 < 40
  }
}
)",
       1e-4},
      {"matvec_dot", R"(
kernel @matvec_dot(in %a: f32[1200], in %x: f32[100], out %y: f32[12]) {
  phase grid(m < 3) {
    %zero = constant 0 : tile<4x1xf32>
    %w = load %a[(m * 4 + d0) * 100 + d1] : tile<4x100xf32>
    %v = load %x[d1] : tile<1x100xf32>
    %r = dot %w, %v, %zero axis 1
    store %y[m * 4 + d0], %r
  }
}
)",
       1e-4},
      {"argmax", R"(
kernel @argmax(in %x: f32[700], out %v: f32[7], out %i: i64[7]) {
  phase grid(row < 7) {
    %a = load %x[row * 100 + d1] : tile<1x100xf32>
    %n = index d1 : tile<1x100xi64>
    %m, %k = reduce {
      (%l: f32, %li: i64, %r: f32, %ri: i64)
      %less = lt %l, %r
      %same = eq %l, %r
      %first = lt %ri, %li
      %tie = bit_and %same, %first
      %take = bit_or %less, %tie
      %v = where %take, %r, %l
      %vi = where %take, %ri, %li
      yield %v, %vi
    } identity(-inf, 9223372036854775807) %a, %n axis 1
    store %v[row], %m
    store %i[row], %k
  }
}
)"},
      {"scans", R"(
kernel @scans(in %x: f32[700], out %y: f32[700], out %z: f32[700], out %t: f32[100]) {
  phase grid() {
    %start = constant 5 : tile<1x100xf32>
    %a = load %x[d0 * 100 + d1] : tile<7x100xf32>
    %down, %sums = scan add %a, %start axis 0 if d0 < 6
    %left = load %x[d0 * 100] : tile<7x1xf32>
    %right, %rest = scan maximum %down, %left axis 1
    store %y[d0 * 100 + d1], %down
    store %z[d0 * 100 + d1], %right
    store %t[d1], %sums
  }
}
)",
       1e-4},
      {"scan_pairs", R"(
kernel @scan_pairs(in %x: f32[700], out %v: f32[700], out %i: i64[700]) {
  phase grid(row < 7) {
    %first = constant -inf : tile<1x1xf32>
    %none = constant -1 : tile<1x1xi64>
    %m, %k = loop part < 4 carry(%v0 = %first, %i0 = %none) {
      %a = load %x[row * 100 + part * 25 + d1] : tile<1x25xf32>
      %n = index part * 25 + d1 : tile<1x25xi64>
      %s, %si, %l, %li = scan {
        (%l: f32, %li: i64, %r: f32, %ri: i64)
        %less = lt %l, %r
        %v = where %less, %r, %l
        %vi = where %less, %ri, %li
        yield %v, %vi
      } identity(-inf, -1) %a, %n, %v0, %i0 axis 1
      store %v[row * 100 + part * 25 + d1], %s
      store %i[row * 100 + part * 25 + d1], %si
      yield %l, %li
    }
  }
}
)"},
      {"gather_select", R"(
kernel @gather_select(in %x: f32[500], in %at: i32[130], out %y: f32[1300]) {
  phase grid(c < 3) {
    %j = load %at[c * 48 + d0] if c * 48 + d0 < 130 : tile<48x1xi32>
    %r = load %x[v0 * 10 + d1] with v0 < 50 = %j : tile<48x10xf32>
    %k = index d1 + c * 48 + d0 : tile<48x10xi32>
    %f = cast %k : tile<48x10xf32>
    %q = lt %f, %r
    %z = where %q, %f, %r
    store %y[(c * 48 + d0) * 10 + d1], %z if c * 48 + d0 < 130
  }
}
)"},
      {"scatter_add", R"(
kernel @scatter_add(in %x: i32[1300], in %at: i32[130], inout %y: i32[500]) {
  phase grid(c < 3) {
    %j = load %at[c * 48 + d0] if c * 48 + d0 < 130 : tile<48x1xi32>
    %r = load %x[(c * 48 + d0) * 10 + d1] if c * 48 + d0 < 130 : tile<48x10xi32>
    combine add %y[v0 * 10 + d1], %r with v0 < 50 = %j if c * 48 + d0 < 130
  }
}
)"},
      {"two_widths", R"(
kernel @two_widths(in %x: f32[1200], in %w: f32[4000], out %y: f32[4000]) {
  phase grid(c < 2) {
    %a = load %x[(c * 10 + d0) * 60 + d1] : tile<10x60xf32>
    %m = reduce maximum %a axis 1
    %b = load %w[(c * 10 + d0) * 200 + d1] : tile<10x200xf32>
    %r = sub %b, %m
    store %y[(c * 10 + d0) * 200 + d1], %r
  }
}
)"},
      {"branches", R"(
kernel @branches(in %x: f32[900], out %y: f32[900]) {
  phase grid(c < 3) {
    %a = load %x[c * 300 + d0] : tile<300xf32>
    %r = branch c < 1 {
      %s = reduce add %a axis 0
      %n = sub %a, %s
      yield %n
    } else {
      %p = mul %a, %a
      yield %p
    }
    store %y[c * 300 + d0], %r
  }
}
)",
       1e-4},
      {"long_row", R"(
kernel @long_row(in %x: f32[20011], out %y: f32[20011]) {
  phase grid(row < 1) {
    %v = load %x[d1] : tile<1x20011xf32>
    %m = reduce maximum %v axis 1
    %d = sub %v, %m
    %e = exp %d
    %s = reduce add %e axis 1
    %q = div %e, %s
    store %y[d1], %q
  }
}
)",
       1e-4},
      {"large_carried", R"(
kernel @large_carried(in %x: i32[20000], out %y: i32[5000]) {
  phase grid(row < 1) {
    %zero = constant 0 : tile<1x5000xi32>
    %one = constant 1 : tile<1x5000xi32>
    %p, %q = loop i < 4 carry(%a = %zero, %b = %one) {
      %v = load %x[i * 5000 + d1] : tile<1x5000xi32>
      %n = add %a, %v
      yield %b, %n
    }
    %r = sub %p, %q
    store %y[d1], %r
  }
}
)"},
      {"two_phases", R"(
kernel @two_phases(in %x: f32[3000], temp %t: f32[30], out %y: f32[3]) {
  phase grid(row < 3, part < 10) {
    %v = load %x[row * 1000 + part * 100 + d1] : tile<1x100xf32>
    %s = reduce add %v axis 1
    store %t[row * 10 + part], %s
  }
  phase grid(row < 3) {
    %v = load %t[row * 10 + d1] : tile<1x10xf32>
    %s = reduce add %v axis 1
    store %y[row], %s
  }
}
)",
       1e-4},
      {"symbolic", R"(
kernel @symbolic(in %x: f32[n * 7], out %y: f32[7]) symbols(n in [1, 500]) {
  phase grid(row < 7) {
    %zero = constant 0 : tile<1x64xf32>
    %acc = loop i < (n + 63) // 64 carry(%a = %zero) {
      %v = load %x[row * n + i * 64 + d1] if i * 64 + d1 < n : tile<1x64xf32>
      %s = add %a, %v
      yield %s
    }
    %r = reduce add %acc axis 1
    store %y[row], %r
  }
}
)",
       1e-4},
      {"half_rows", R"(
kernel @half_rows(in %x: f16[2048], out %y: f16[2048], out %s: f32[4]) {
  phase grid(row < 4) {
    %v = load %x[row * 512 + d1] : tile<1x512xf16>
    %f = cast %v : tile<1x512xf32>
    %m = reduce add %f axis 1
    %two = constant 2 : f32
    %w = mul %f, %two
    %h = cast %w : tile<1x512xf16>
    store %y[row * 512 + d1], %h
    store %s[row], %m
  }
}
)",
       1e-4},
  };
  return programs;
}

}  // namespace heddle::testing
