#include <gtest/gtest.h>

#include "testing/testing.h"

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  musaic::testing::seed();
  return RUN_ALL_TESTS();
}
