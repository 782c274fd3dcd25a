# Toolchain file: slipway itself for 64-bit Arm Linux, by Debian's cross compiler (g++-aarch64-linux-gnu) against the
# libraries that scripts/cross_aarch64.sh unpacks into build/arm64/root. Programs of the build, such as flatc and
# protoc, are this machine's; tests run under qemu-user.
cmake_path(SET root NORMALIZE ${CMAKE_CURRENT_LIST_DIR}/../build/arm64/root)
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_ASM_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_SYSROOT ${root})
# Names of headers in messages begin with the sources' folder, which is taken off, where the root is a link, too.
set(CMAKE_CXX_FLAGS_INIT -fno-canonical-system-headers)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_LIBDIR} ${root}/usr/lib/aarch64-linux-gnu/pkgconfig:${root}/usr/share/pkgconfig)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${root})
find_program(qemu_aarch64 qemu-aarch64)
if(qemu_aarch64)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${qemu_aarch64};-L;${root})
endif()
