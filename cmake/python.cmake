# The Python package: build/<preset>/python/heddle holds the module beside links to python/heddle.
# scripts/python_env makes the environment in which nanobind is found.

if(NOT SKBUILD)
  set(HEDDLE_VENV ${PROJECT_SOURCE_DIR}/build/venv CACHE PATH "The virtual environment with nanobind, NumPy and pytest")
  if(NOT EXISTS ${HEDDLE_VENV}/bin/python)
    message(FATAL_ERROR "HEDDLE_PYTHON: there is no ${HEDDLE_VENV}; scripts/python_env makes it")
  endif()
  set(Python_EXECUTABLE ${HEDDLE_VENV}/bin/python)
endif()
find_package(Python 3.11 REQUIRED COMPONENTS Interpreter Development.Module OPTIONAL_COMPONENTS Development.SABIModule)
execute_process(COMMAND ${Python_EXECUTABLE} -m nanobind --cmake_dir OUTPUT_VARIABLE nanobind_ROOT
                OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
find_package(nanobind CONFIG REQUIRED)

file(GLOB sources CONFIGURE_DEPENDS src/python/*.cpp)
if(SKBUILD)  # one module for Python 3.12 and all later ones; nanobind makes an ordinary one with 3.11
  set(stable STABLE_ABI)
endif()
nanobind_add_module(heddle_python NB_STATIC NOMINSIZE NOSTRIP NB_SUPPRESS_WARNINGS ${stable} ${sources})
foreach(library nanobind-static nanobind-static-abi3)
  if(TARGET ${library})
    target_compile_options(${library} PRIVATE -w)
  endif()
endforeach()
target_include_directories(heddle_python PRIVATE src)
set_source_files_properties(src/python/module.cpp PROPERTIES
                            COMPILE_DEFINITIONS HEDDLE_VERSION="${PROJECT_VERSION}")
target_link_libraries(heddle_python PRIVATE heddle)
set(python_folder ${PROJECT_BINARY_DIR}/python/heddle)
# What help() says comes from the headers.
set(python_docs ${python_folder}/_docs.py)
file(GLOB operator_headers CONFIGURE_DEPENDS include/heddle/ops/*.h include/heddle/nn/loss.h)
add_custom_command(OUTPUT ${python_docs}
  COMMAND ${Python_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/python_docs.py ${python_docs}
  DEPENDS ${operator_headers} ${PROJECT_SOURCE_DIR}/scripts/python_docs.py ${PROJECT_SOURCE_DIR}/src/python/docs.txt
  COMMENT "Reading what the headers say about operators")
target_sources(heddle_python PRIVATE ${python_docs})
if(SKBUILD)
  install(FILES ${python_docs} DESTINATION heddle COMPONENT python)
endif()
set_target_properties(heddle_python PROPERTIES OUTPUT_NAME _core LIBRARY_OUTPUT_DIRECTORY ${python_folder})

if(NOT SKBUILD)
  file(GLOB_RECURSE files CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/python/heddle python/heddle/*.py)
  foreach(file ${files})
    get_filename_component(folder ${python_folder}/${file} DIRECTORY)
    file(MAKE_DIRECTORY ${folder})
    file(CREATE_LINK ${PROJECT_SOURCE_DIR}/python/heddle/${file} ${python_folder}/${file} SYMBOLIC)
  endforeach()
endif()
