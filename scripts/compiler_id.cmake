# Writes a header with an identification of the compiler's sources: VERSION and a hash of all files that LIST names.
# The header changes only when the identification does.
cmake_minimum_required(VERSION 3.25)
file(STRINGS ${LIST} sources)
list(SORT sources)
set(hashes "")
foreach(source ${sources})
  file(SHA256 ${source} hash)
  file(RELATIVE_PATH name ${ROOT} ${source})
  string(APPEND hashes "${name} ${hash}\n")
endforeach()
string(SHA256 id "${hashes}")
string(SUBSTRING ${id} 0 16 id)
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "#define HEDDLE_COMPILER_ID \"@VERSION@-@id@\"\n" @ONLY)
