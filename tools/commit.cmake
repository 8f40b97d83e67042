# Writes a header that names the commit being built. Run with -DSOURCE=<checkout> -DOUTPUT=<header>.
set(commit "unknown")
execute_process(COMMAND git --no-optional-locks describe --always --dirty --abbrev=10 --exclude=*
                WORKING_DIRECTORY ${SOURCE} OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET
                RESULT_VARIABLE status)
if(status STREQUAL "0" AND found)
  set(commit "${found}")
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "#define HEDDLE_COMMIT \"${commit}\"\n")
