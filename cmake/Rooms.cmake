# A room is a folder, a static library of the same name and a view of the headers it may include. The view is a folder
# of links in the build tree, one link per allowed room: #include "ir/graph.h" compiles only where `ir` is allowed.
function(slipway_see_rooms target)
  set(view ${CMAKE_BINARY_DIR}/views/${target})
  file(MAKE_DIRECTORY ${view})
  foreach(room ${ARGN})
    file(CREATE_LINK ${CMAKE_SOURCE_DIR}/${room} ${view}/${room} SYMBOLIC)
  endforeach()
  target_include_directories(${target} PRIVATE ${view})
endfunction()

# Sources of a room in files of several (unity_groups.py), with SLIPWAY_UNITY. Not kernels, which have flags of their
# own and of which every instruction is measured.
function(slipway_unity name variable)
  if(NOT SLIPWAY_UNITY OR name STREQUAL "kernels")
    return()
  endif()
  find_program(PYTHON3 python3 REQUIRED)
  set(together ${${variable}})
  list(FILTER together INCLUDE REGEX "\\.cc$")
  list(FILTER together EXCLUDE REGEX "/loops/")
  set(apart ${${variable}})
  list(REMOVE_ITEM apart ${together})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${together} cmake/unity_groups.py)
  execute_process(COMMAND ${PYTHON3} ${CMAKE_SOURCE_DIR}/cmake/unity_groups.py
    ${CMAKE_BINARY_DIR}/unity/${name} 6000 ${together}
    OUTPUT_VARIABLE files COMMAND_ERROR_IS_FATAL ANY)
  set(${variable} ${files} ${apart} PARENT_SCOPE)
endfunction()

# With SLIPWAY_QUICK, code that works on graphs and texts: a third of the time to compile it.
function(slipway_quick target)
  if(SLIPWAY_QUICK AND NOT SLIPWAY_SANITIZE)
    target_compile_options(${target} PRIVATE -Og)
  endif()
endfunction()

function(slipway_room name)  # EXCEPT: a regular expression of sources that are compiled elsewhere
  cmake_parse_arguments(ARG "" "EXCEPT" "ROOMS;LIBS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${name}/*.cc ${CMAKE_SOURCE_DIR}/${name}/*.S)
  if(NOT sources)
    add_library(room_${name} INTERFACE)
    foreach(room ${ARG_ROOMS})
      target_link_libraries(room_${name} INTERFACE room_${room})
    endforeach()
    target_link_libraries(room_${name} INTERFACE ${ARG_LIBS})
    return()
  endif()
  if(NOT UNIX)  # bodies for POSIX systems
    list(FILTER sources EXCLUDE REGEX "/posix/")
  endif()
  if(ARG_EXCEPT)
    list(FILTER sources EXCLUDE REGEX "${ARG_EXCEPT}")
  endif()
  slipway_unity(${name} sources)
  add_library(room_${name} STATIC ${sources})
  slipway_see_rooms(room_${name} ${name} ${ARG_ROOMS})
  if(NOT name MATCHES "^(io|importers|kernels|quantizer|weights)$")
    slipway_quick(room_${name})
    target_precompile_headers(room_${name} REUSE_FROM ${slipway_quick_pch})
  elseif(NOT name STREQUAL "kernels")  # other flags, few headers
    target_precompile_headers(room_${name} REUSE_FROM slipway_pch)
  endif()
  foreach(room ${ARG_ROOMS})
    target_link_libraries(room_${name} PUBLIC room_${room})
  endforeach()
  target_link_libraries(room_${name} PUBLIC ${ARG_LIBS})
endfunction()
