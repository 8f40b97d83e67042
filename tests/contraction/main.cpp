// Contractions on one target, which HEDDLE_TARGET chooses: it is read once per process. CTest runs this program for
// each.
#include <gtest/gtest.h>
#include <heddle/error.h>

#include <cstdio>

#include "codegen/codegen.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  try {
    std::printf("target %s\n", heddle::host_target().name.c_str());
  } catch (const heddle::ValueError& error) {
    std::printf("skipped: %s\n", error.what());
    return 77;
  }
  return RUN_ALL_TESTS();
}
