# What `cmake --install build` puts where, and packages of it: `cpack --config build/CPackConfig.cmake` makes a .deb.
# The target `shipped` builds what is installed.
include(GNUInstallDirs)

# The pages that slipway prints of itself.
set(pages ${CMAKE_BINARY_DIR}/pages)
set(made "")
function(slipway_page file)
  add_custom_command(OUTPUT ${pages}/${file} COMMAND ${CMAKE_COMMAND} -E make_directory ${pages}
    COMMAND slipway ${ARGN} > ${pages}/${file} DEPENDS slipway VERBATIM)
  set(made ${made} ${pages}/${file} PARENT_SCOPE)
endfunction()
slipway_page(slipway.1 man)
slipway_page(slipway.bash completion bash)
slipway_page(_slipway completion zsh)
slipway_page(slipway.fish completion fish)
add_custom_target(shipped ALL DEPENDS slipway slipway_shared ${made})

install(TARGETS slipway)
install(TARGETS slipway_shared EXPORT slipway)
install(DIRECTORY include/slipway TYPE INCLUDE)
install(FILES ${pages}/slipway.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${pages}/slipway.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME slipway)
install(FILES ${pages}/_slipway DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions)
install(FILES ${pages}/slipway.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
install(FILES LICENSE README.md CHANGELOG.md ${SLIPWAY_LICENCES} TYPE DOC)
# Messages name documents as docs/PAGE.md and schemas as schemas/NAME.schema.json; `slipway --help` says where they are
# (cli/help.cc), for which both lie at the same place below share/ in a wheel.
install(DIRECTORY docs TYPE DOC FILES_MATCHING PATTERN *.md PATTERN *.svg)
install(DIRECTORY schemas DESTINATION ${CMAKE_INSTALL_DATADIR}/slipway FILES_MATCHING PATTERN *.schema.json)

# In a wheel (pyproject.toml) the program lies beside the package's Python files. Where libslipway.so needs no other
# libraries it holds all of the code, for models in memory, and the program is what calls it; else the wheel has the
# program that stands alone. A wheel has no links: the library is there once, by its soname.
if(SLIPWAY_ARCHIVES)
  add_executable(slipway_over_library cli/main.cc)
  slipway_see_public_headers(slipway_over_library)
  target_link_libraries(slipway_over_library PRIVATE slipway_shared)
  slipway_runs_on_old_glibc(slipway_over_library)
  set_target_properties(slipway_over_library PROPERTIES
    OUTPUT_NAME slipway RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/wheel_program
    BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN/../lib")
  add_custom_target(wheel_files DEPENDS slipway_over_library)
  install(TARGETS slipway_over_library DESTINATION slipway/bin COMPONENT wheel EXCLUDE_FROM_ALL)
  install(FILES $<TARGET_FILE:slipway_shared> DESTINATION slipway/lib RENAME $<TARGET_SONAME_FILE_NAME:slipway_shared>
    COMPONENT wheel EXCLUDE_FROM_ALL)
  install(CODE "execute_process(COMMAND ${CMAKE_STRIP}
    \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/slipway/lib/$<TARGET_SONAME_FILE_NAME:slipway_shared>\"
    COMMAND_ERROR_IS_FATAL ANY)" COMPONENT wheel EXCLUDE_FROM_ALL)
else()
  add_custom_target(wheel_files DEPENDS slipway)
  install(TARGETS slipway DESTINATION slipway/bin COMPONENT wheel EXCLUDE_FROM_ALL)
endif()
# Of the documents those that users look things up in: a wheel has 12 MB at most.
install(DIRECTORY docs DESTINATION slipway/share/doc/slipway COMPONENT wheel EXCLUDE_FROM_ALL
  FILES_MATCHING PATTERN *.md PATTERN guide EXCLUDE PATTERN design EXCLUDE PATTERN architecture.md EXCLUDE
  PATTERN extending.md EXCLUDE PATTERN ops.md EXCLUDE)
install(DIRECTORY schemas DESTINATION slipway/share/slipway COMPONENT wheel EXCLUDE_FROM_ALL
  FILES_MATCHING PATTERN *.schema.json)
if(SLIPWAY_LICENCES)
  install(FILES ${SLIPWAY_LICENCES} DESTINATION slipway RENAME THIRD_PARTY_LICENSES COMPONENT wheel EXCLUDE_FROM_ALL)
endif()

# For those who link with the library: find_package(slipway), slipway::slipway; pkg-config slipway. Neither names the
# build's folders.
target_include_directories(slipway_shared INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
set_target_properties(slipway_shared PROPERTIES EXPORT_NAME slipway)
include(CMakePackageConfigHelpers)
write_basic_package_version_file(${pages}/slipway-config-version.cmake COMPATIBILITY SameMinorVersion)
install(EXPORT slipway NAMESPACE slipway:: FILE slipway-config.cmake DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/slipway)
install(FILES ${pages}/slipway-config-version.cmake DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/slipway)
file(RELATIVE_PATH to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
file(CONFIGURE OUTPUT ${pages}/slipway.pc @ONLY CONTENT [[
prefix=${pcfiledir}/@to_prefix@
Name: slipway
Description: Models as PyTorch leaves them, made into ONNX and native libraries: the C API
Version: @SLIPWAY_VERSION@
Libs: -L${prefix}/@CMAKE_INSTALL_LIBDIR@ -lslipway
Cflags: -I${prefix}/@CMAKE_INSTALL_INCLUDEDIR@
]])
install(FILES ${pages}/slipway.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME slipway)
set(CPACK_PACKAGE_VENDOR "the authors of slipway")
set(CPACK_PACKAGE_CONTACT "the authors of slipway")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "PyTorch models made into ONNX, PT2, safetensors and native libraries")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
if(NOT CMAKE_CROSSCOMPILING)  # dpkg-shlibdeps looks for libraries among this machine's packages
  include(CPack)
endif()
