// What objects made by Debian 12's compiler, and its static libraries, want of glibc beyond 2.28, for programs that run
// there: hidden functions of the same names, over what 2.28 has. cmake/Glibc.cmake links them into all that is shipped.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

// Since 2.33 functions; before, headers made calls of these, whose first argument is the version of the struct.
#if defined(__x86_64__)
enum { kStatVersion = 1 };
#elif defined(__aarch64__)
enum { kStatVersion = 0 };
#endif
extern int __xstat(int version, const char* path, struct stat* info);
extern int __lxstat(int version, const char* path, struct stat* info);
extern int __fxstat(int version, int fd, struct stat* info);
extern int __fxstatat(int version, int fd, const char* path, struct stat* info, int flags);
int stat(const char* path, struct stat* info) { return __xstat(kStatVersion, path, info); }
int lstat(const char* path, struct stat* info) { return __lxstat(kStatVersion, path, info); }
int fstat(int fd, struct stat* info) { return __fxstat(kStatVersion, fd, info); }
int fstatat(int fd, const char* path, struct stat* info, int flags) {
  return __fxstatat(kStatVersion, fd, path, info, flags);
}
int stat64(const char* path, struct stat64* info) { return __xstat(kStatVersion, path, (struct stat*)info); }
int lstat64(const char* path, struct stat64* info) { return __lxstat(kStatVersion, path, (struct stat*)info); }
int fstat64(int fd, struct stat64* info) { return __fxstat(kStatVersion, fd, (struct stat*)info); }

// Whether reference counts may do without atomic instructions (2.32): 0, they may not.
char __libc_single_threaded = 0;

// std::random_device of libstdc++ (2.36).
uint32_t arc4random(void) {
  uint32_t number = 0;
  ssize_t got;
  do got = getrandom(&number, sizeof number, 0);
  while (got < 0 && errno == EINTR);
  if (got != sizeof number) abort();  // as arc4random() does where the system has no random numbers
  return number;
}

// How libgcc finds the tables that an exception unwinds the stack with (2.35): here by going through all loaded
// objects, as it did before.
struct Search {
  uintptr_t address;
  struct dl_find_object* found;
};

static int Look(struct dl_phdr_info* info, size_t size, void* data) {
  (void)size;
  struct Search* search = data;
  uintptr_t start = 0, end = 0, table = 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)* header = &info->dlpi_phdr[i];
    const uintptr_t begin = info->dlpi_addr + header->p_vaddr;
    if (header->p_type == PT_LOAD && search->address >= begin && search->address < begin + header->p_memsz) {
      start = begin;
      end = begin + header->p_memsz;
    } else if (header->p_type == PT_GNU_EH_FRAME) {
      table = begin;
    }
  }
  if (start == 0) return 0;
  if (table == 0) return -1;
  memset(search->found, 0, sizeof *search->found);
  search->found->dlfo_map_start = (void*)start;
  search->found->dlfo_map_end = (void*)end;
  search->found->dlfo_eh_frame = (void*)table;
  return 1;
}

int _dl_find_object(void* address, struct dl_find_object* found) {
  struct Search search = {(uintptr_t)address, found};
  return dl_iterate_phdr(Look, &search) == 1 ? 0 : -1;
}
