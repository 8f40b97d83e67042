// Operators. They record; nothing runs before a value is needed. Spelling and rules follow NumPy and PyTorch:
// operands broadcast, dtypes promote, a number written in the program ("weak") never widens a tensor's dtype.
#pragma once

#include <heddle/ops/activation.h>
#include <heddle/ops/attention.h>
#include <heddle/ops/binary.h>
#include <heddle/ops/conv.h>
#include <heddle/ops/create.h>
#include <heddle/ops/index.h>
#include <heddle/ops/indexing.h>
#include <heddle/ops/join.h>
#include <heddle/ops/linalg.h>
#include <heddle/ops/normalize.h>
#include <heddle/ops/operand.h>
#include <heddle/ops/operators.h>
#include <heddle/ops/random.h>
#include <heddle/ops/reduce.h>
#include <heddle/ops/scan.h>
#include <heddle/ops/scatter.h>
#include <heddle/ops/shape.h>
#include <heddle/ops/sort.h>
#include <heddle/ops/unary.h>
