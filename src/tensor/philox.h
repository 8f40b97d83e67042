// The generator as tensor code: Philox 4x32 with ten rounds. Private to src/tensor.
//
// A tensor of N elements uses Q = ceil(N / 4) blocks of four 32-bit words. Element e takes word e / Q of block e % Q.
// The counter of a block is (block, stream, upper half of the seed, upper half of the draws); the key is the lower
// halves. The key is data, not a constant, so that one compiled kernel serves every call.
#pragma once

#include "tensor/build.h"

namespace heddle {

struct Words {
  Tensor w[4];
};

// The random words of one call.
class Draw {
 public:
  // Refuses more elements than a key can number.
  Draw(const char* op, const Tensor& key, int64_t count);

  // All four words of every element's block, of shape [4, Q]. `stream` tells apart words drawn under one key.
  Words blocks(uint32_t stream) const;
  // Of each element's block the word that is its own.
  Tensor own_words(uint32_t stream) const;
  // Which of the four words an element takes: 0 to 3.
  Tensor word_number() const;
  // From [4, Q] to the elements in the shape of the result.
  Tensor elements(const Tensor& words, const Dims& shape) const;

 private:
  Tensor key_;
  int64_t count_, quarter_;
};

// Four words for every element of a shape: its number in row-major order is the block.
Words words_of_each(const char* op, const Tensor& key, const Shape& shape, uint32_t stream);

// Numbers made of words: multiples of 2^-24 in [0, 1), ...
Tensor unit_f32(const Tensor& word);
// ... of 2^-53, ...
Tensor unit_f64(const Tensor& high, const Tensor& low);
// ... and numbers in (0, 1] that are as fine near 0 as the dtype, for logarithms: (word + 1/2) / 2^32 in f32.
Tensor open_unit_f32(const Tensor& word);
Tensor open_unit_f64(const Tensor& high, const Tensor& low);
Tensor join_words(const Tensor& high, const Tensor& low);  // u64

}  // namespace heddle
