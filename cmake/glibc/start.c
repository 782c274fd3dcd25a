// Where a program begins, in place of the C library's Scrt1.o: that of glibc 2.34 and later leaves it to the C library
// to run a program's constructors, which older ones do not. Older ones call the function that is handed to them for it,
// and newer ones still do.
typedef void (*Constructor)(int, char**, char**);
extern Constructor __init_array_start[] __attribute__((visibility("hidden")));
extern Constructor __init_array_end[] __attribute__((visibility("hidden")));
extern void _init(void);

const int _IO_stdin_used = 0x20001;  // "this program has the stdio of glibc 2.1 and later"

__attribute__((used)) static void RunConstructors(int argc, char** argv, char** environment) {
  _init();
  for (Constructor* c = __init_array_start; c != __init_array_end; ++c) (*c)(argc, argv, environment);
}

// __libc_start_main(main, argc, argv, constructors, destructors, function for exit, end of the stack)
__asm__(
    ".text\n"
    ".globl _start\n"
    ".type _start,@function\n"
    "_start:\n"
    "  .cfi_startproc\n"
#if defined(__x86_64__)
    // The system enters with the arguments on the stack and a function for exit in rdx.
    "  .cfi_undefined rip\n"
    "  endbr64\n"
    "  xorl %ebp, %ebp\n"
    "  movq %rdx, %r9\n"
    "  popq %rsi\n"
    "  movq %rsp, %rdx\n"
    "  andq $-16, %rsp\n"
    "  pushq %rax\n"
    "  pushq %rsp\n"
    "  xorl %r8d, %r8d\n"
    "  leaq RunConstructors(%rip), %rcx\n"
    "  movq main@GOTPCREL(%rip), %rdi\n"
    "  call *__libc_start_main@GOTPCREL(%rip)\n"
    "  hlt\n"
#elif defined(__aarch64__)
    // The system enters with the arguments on the stack, which is aligned, and a function for exit in x0.
    "  .cfi_undefined x30\n"
    "  hint #34\n"  // bti c
    "  mov x29, xzr\n"
    "  mov x30, xzr\n"
    "  mov x5, x0\n"
    "  mov x6, sp\n"
    "  ldr x1, [sp]\n"
    "  add x2, sp, #8\n"
    "  adrp x3, RunConstructors\n"
    "  add x3, x3, :lo12:RunConstructors\n"
    "  mov x4, xzr\n"
    "  adrp x0, :got:main\n"
    "  ldr x0, [x0, :got_lo12:main]\n"
    "  bl __libc_start_main\n"
    "  brk #0\n"
#else
#error "written for x86-64 and aarch64"
#endif
    "  .cfi_endproc\n"
    ".size _start, .-_start\n");
