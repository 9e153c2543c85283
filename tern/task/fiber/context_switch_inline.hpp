// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The few instructions that leave one stack and enter another; inlined into user code by
/// `this_fiber::yield`. (A processor foretells where `ret` leads from the last calls; after a
/// switch these are another fiber's. A jump it foretells from what it did before.)

namespace tern::detail {

/// A switch that is prepared: where to save this stack's pointer, and the other's. Null: nothing is
/// left to do.
struct pending_switch {
  void** save = nullptr;
  void* go = nullptr;
};
/// All of a yield but the jump; or all of it.
pending_switch begin_yield() noexcept;
/// After the jump.
void end_yield() noexcept;

#if (defined(__x86_64__) && defined(__LP64__)) || defined(__aarch64__)
#define TERN_INLINE_SWITCH

/// Saves the stack pointer at `where`, with what is needed to go on above it, and goes on at `to`,
/// which another such jump saved or `prepare_stack` made. Control words of floating-point
/// arithmetic are the caller's business.
[[gnu::always_inline]] inline void swap_stack(void** where, void* to) noexcept {
#if defined(__x86_64__)
  asm volatile("leaq -128(%%rsp), %%rsp\n\t" // the caller may use 128 bytes below the stack pointer
               "pushq %%rbp\n\t"
               "pushq %%rbx\n\t"
               "leaq 1f(%%rip), %%rax\n\t"
               "pushq %%rax\n\t"
               "movq %%rsp, (%0)\n\t"
               "movq %1, %%rsp\n\t"
               "popq %%rax\n\t"
               "jmp *%%rax\n"
               "1:\n\t"
#if defined(__CET__) && (__CET__ & 1)
               "endbr64\n\t"
#endif
               "popq %%rbx\n\t"
               "popq %%rbp\n\t"
               "leaq 128(%%rsp), %%rsp"
               : "+D"(where), "+S"(to)
               :
               : "rax", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "memory", "cc", "xmm0",
                 "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12",
                 "xmm13", "xmm14", "xmm15"
#if defined(__AVX512F__)
                 ,
                 "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25", "xmm26",
                 "xmm27", "xmm28", "xmm29", "xmm30", "xmm31", "k1", "k2", "k3", "k4", "k5", "k6", "k7"
#endif
  );
#else
  register void** save asm("x0") = where;
  register void* go asm("x1") = to;
  asm volatile("sub sp, sp, #32\n\t"
               "stp x29, x30, [sp, #16]\n\t"
               "adr x2, 1f\n\t"
               "stp x2, x19, [sp]\n\t"
               "mov x2, sp\n\t"
               "str x2, [x0]\n\t"
               "mov sp, x1\n\t"
               "ldr x2, [sp]\n\t"
               "br x2\n"
               "1:\n\t"
#if defined(__ARM_FEATURE_BTI_DEFAULT)
               "bti j\n\t"
#endif
               "ldr x19, [sp, #8]\n\t"
               "ldp x29, x30, [sp, #16]\n\t"
               "add sp, sp, #32"
               : "+r"(save), "+r"(go)
               :
               : "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16", "x17",
                 "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28", "memory", "cc", "v0", "v1", "v2", "v3",
                 "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", "v16", "v17", "v18",
                 "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31");
#endif
}

#endif

} // namespace tern::detail
