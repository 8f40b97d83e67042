// Everything a program needs.
#pragma once

#include <heddle/control.h>
#include <heddle/data.h>
#include <heddle/deterministic.h>
#include <heddle/device.h>
#include <heddle/dim.h>
#include <heddle/dtype.h>
#include <heddle/error.h>
#include <heddle/grad.h>
#include <heddle/interrupt.h>
#include <heddle/io.h>
#include <heddle/jit.h>
#include <heddle/kernel.h>
#include <heddle/memory.h>
#include <heddle/models.h>
#include <heddle/nn.h>
#include <heddle/ops.h>
#include <heddle/optim.h>
#include <heddle/plot.h>
#include <heddle/precision.h>
#include <heddle/profile.h>
#include <heddle/progress.h>
#include <heddle/relaxed.h>
#include <heddle/tensor.h>
#include <heddle/vmap.h>

#include <cmath>  // INFINITY and NAN, which programs with masks write
