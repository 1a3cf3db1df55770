# SPDX-License-Identifier: Apache-2.0
#
# Writes syscall_names.inc: `{number, "name"},` for each __NR_ macro of <sys/syscall.h> whose value is a
# plain number, sorted by number.
function(pyprof_syscall_names output)
  file(WRITE ${CMAKE_BINARY_DIR}/syscall_names_probe.cpp "#include <sys/syscall.h>\n")
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -dM -E ${CMAKE_BINARY_DIR}/syscall_names_probe.cpp
    OUTPUT_VARIABLE macros COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "#define __NR_[a-z0-9_]+ [0-9]+\n" macros "${macros}")
  set(entries)
  foreach(macro ${macros})
    string(REGEX MATCH "__NR_([a-z0-9_]+) ([0-9]+)" matched "${macro}")
    set(name ${CMAKE_MATCH_1})
    set(padded "00000${CMAKE_MATCH_2}")
    string(LENGTH ${padded} length)
    math(EXPR from "${length} - 5")
    string(SUBSTRING ${padded} ${from} 5 padded)
    list(APPEND entries "${padded} ${name}")
  endforeach()
  list(SORT entries)
  set(text "")
  foreach(entry ${entries})
    string(REGEX MATCH "0*([0-9]+) (.*)" matched "${entry}")
    string(APPEND text "{${CMAKE_MATCH_1}, \"${CMAKE_MATCH_2}\"},\n")
  endforeach()
  file(CONFIGURE OUTPUT ${output} CONTENT "${text}" @ONLY)
endfunction()
