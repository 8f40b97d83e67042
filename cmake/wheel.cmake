# What pip installs besides python/heddle: the library, the module and the command, which share it, and what belongs to
# the package's metadata.
include_directories(src)
add_subdirectory(bench/zoo)
add_subdirectory(tools)

set_target_properties(heddle_python PROPERTIES INSTALL_RPATH "$ORIGIN")
set_target_properties(heddle_cli PROPERTIES INSTALL_RPATH "$ORIGIN/..")
# Nobody but the library sees what is linked into it, and it takes nothing from others: another LLVM may be in the process.
target_link_options(heddle_installed PRIVATE -Wl,--exclude-libs,ALL -Wl,-Bsymbolic -Wl,--gc-sections -Wl,--as-needed
                    -Wl,--version-script,${PROJECT_SOURCE_DIR}/cmake/exported.map)
set_target_properties(heddle_installed PROPERTIES LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/exported.map)
install(TARGETS heddle_installed heddle_python LIBRARY DESTINATION heddle COMPONENT python)
install(TARGETS heddle_cli RUNTIME DESTINATION heddle/bin COMPONENT python)

# The licences of what is linked in. Those of Debian's packages are where its policy wants them; where they are not, a
# wheel for others cannot be made.
function(licence name file)
  if(EXISTS ${file})
    install(FILES ${file} RENAME ${name}.txt DESTINATION ${SKBUILD_METADATA_DIR}/licenses COMPONENT python)
  elseif(HEDDLE_STATIC_LLVM)
    message(FATAL_ERROR "The licence of ${name} is not in ${file}")
  endif()
endfunction()
licence(nanobind ${NB_DIR}/../nanobind-${nanobind_VERSION}.dist-info/licenses/LICENSE)
file(STRINGS ${NB_DIR}/ext/robin_map/include/tsl/robin_map.h lines LIMIT_COUNT 23)
list(JOIN lines "\n" text)
file(WRITE ${PROJECT_BINARY_DIR}/generated/robin_map.txt "${text}\n")
licence(robin_map ${PROJECT_BINARY_DIR}/generated/robin_map.txt)
licence(cli11 /usr/share/doc/libcli11-dev/copyright)
licence(nlohmann_json /usr/share/doc/nlohmann-json3-dev/copyright)
if(HEDDLE_STATIC_LLVM)
  licence(llvm /usr/share/doc/llvm-19-dev/copyright)
  licence(apache-2.0 /usr/share/common-licenses/Apache-2.0)
  licence(sqlite /usr/share/doc/libsqlite3-dev/copyright)
  licence(zlib /usr/share/doc/zlib1g-dev/copyright)
  licence(zstd /usr/share/doc/libzstd-dev/copyright)
endif()
