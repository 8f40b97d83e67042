# find_package(heddle): the target heddle::heddle.
include(CMakeFindDependencyMacro)
find_dependency(Threads)
include(${CMAKE_CURRENT_LIST_DIR}/heddle-targets.cmake)
