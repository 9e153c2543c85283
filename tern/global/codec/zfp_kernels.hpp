// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// zfp at a fixed rate of one-dimensional floats, as kernels: the bytes are those of libzfp 1.0,
/// for rates that are a multiple of 4. Internal.
///
/// Each item has a block of 4 elements, which takes 4 · rate bits: its largest exponent, and the
/// elements as integers below it, decorrelated, bit plane after bit plane, until there are no bits
/// left. All is of integers but one multiplication by a power of two, so all devices agree.
///
/// Source: Lindstrom 2014; the stream is that of libzfp's `zfp_stream_set_rate`.

#include <cstdint>

#include <tern/hetero/dialect.hpp>

TERN_KERNELS_BEGIN(zfp_kernels)

typedef union {
  float f;
  uint u;
} zfp_word;

// Bits of a block, the first ones lowest.
typedef struct {
  uint word[4];
  int at, left;
} zfp_bits;

TERN_FN zfp_bits zfp_no_bits(int budget) {
  zfp_bits s;
  for (int i = 0; i < 4; ++i) s.word[i] = 0;
  s.at = 0;
  s.left = budget;
  return s;
}
TERN_FN zfp_bits zfp_put(zfp_bits s, uint bit) {
  s.word[s.at >> 5] |= bit << (s.at & 31);
  ++s.at;
  --s.left;
  return s;
}

// Sums and differences go round, as in libzfp's code for the host.
TERN_FN int zfp_add(int a, int b) { return (int)((uint)a + (uint)b); }
TERN_FN int zfp_sub(int a, int b) { return (int)((uint)a - (uint)b); }

// 2^e, also where that is a denormal or 0.
TERN_FN float zfp_power(int e) {
  zfp_word w;
  w.u = e >= -126 ? (uint)(e + 127) << 23 : e >= -149 ? 1u << (e + 149) : 0u;
  return w.f;
}

TERN_FN int zfp_to_int(float x) {
  return x < 2147483648.0f && x > -2147483648.0f ? (int)x : (int)0x80000000u; // also of what is no number
}

// The 4 elements at `in`, of which there are `count`.
TERN_FN zfp_bits zfp_encode_block(TERN_GLOBAL const float* in, int count, int budget) {
  zfp_bits s = zfp_no_bits(budget);
  zfp_word x[4];
  x[0].f = in[0];
  x[1].f = in[count > 1 ? 1 : 0];
  x[2].f = in[count > 2 ? 2 : count > 1 ? 1 : 0];
  x[3].f = in[count > 3 ? 3 : 0];
  uint most = 0;
  for (int i = 0; i < 4; ++i) {
    const uint magnitude = x[i].u & 0x7fffffffu;
    if (magnitude <= 0x7f800000u && magnitude > most) most = magnitude;
  }
  if (most == 0) return s;
  const int e = most == 0x7f800000u ? 0 : (int)(most >> 23) - 126; // infinite: as frexp has it
  const uint head = 2u * (uint)(e + 127) + 1u;
  for (int i = 0; i < 9; ++i) s = zfp_put(s, head >> i & 1u);

  int q[4];
  for (int i = 0; i < 4; ++i)
    q[i] = e < -97 ? (int)0x80000000u : zfp_to_int(x[i].f * zfp_power(30 - e)); // there the factor is infinite
  int a = q[0], b = q[1], c = q[2], d = q[3];
  a = zfp_add(a, d) >> 1;
  d = zfp_sub(d, a);
  c = zfp_add(c, b) >> 1;
  b = zfp_sub(b, c);
  a = zfp_add(a, c) >> 1;
  c = zfp_sub(c, a);
  d = zfp_add(d, b) >> 1;
  b = zfp_sub(b, d);
  d = zfp_add(d, b >> 1);
  b = zfp_sub(b, d >> 1);

  uint v[4]; // negabinary
  v[0] = ((uint)a + 0xaaaaaaaau) ^ 0xaaaaaaaau;
  v[1] = ((uint)b + 0xaaaaaaaau) ^ 0xaaaaaaaau;
  v[2] = ((uint)c + 0xaaaaaaaau) ^ 0xaaaaaaaau;
  v[3] = ((uint)d + 0xaaaaaaaau) ^ 0xaaaaaaaau;
  int n = 0; // so many elements have had a one
  for (int k = 31; k >= 0 && s.left > 0; --k) {
    uint plane = 0;
    for (int i = 0; i < 4; ++i) plane |= (v[i] >> k & 1u) << i;
    for (int i = 0; i < n && s.left > 0; ++i) {
      s = zfp_put(s, plane & 1u);
      plane >>= 1;
    }
    // Of the others: is there a one? Then all bits up to it.
    int more = 1;
    while (more != 0 && n < 4 && s.left > 0) {
      more = plane != 0;
      s = zfp_put(s, (uint)more);
      if (more != 0) {
        int found = 0;
        while (found == 0 && n < 3 && s.left > 0) {
          found = (int)(plane & 1u);
          s = zfp_put(s, (uint)found);
          if (found == 0) {
            plane >>= 1;
            ++n;
          }
        }
        plane >>= 1;
        ++n;
      }
    }
  }
  return s;
}

TERN_KERNEL(encode, int n, int rate, TERN_GLOBAL const float* TERN_RESTRICT in,
            TERN_GLOBAL unsigned short* TERN_RESTRICT out) {
  TERN_REGION_IN((n + 3) / 4, 1, 1) {
    const int first = 4 * item.x, units = min(rate / 4, 8), blocks = (n + 3) / 4;
    const zfp_bits s = zfp_encode_block(in + first, min(n - first, 4), 4 * rate);
    for (int i = 0; i < units; ++i)
      out[item.x * units + i] = (unsigned short)(s.word[i >> 1] >> 16 * (i & 1) & 0xffffu);
    if (item.x == blocks - 1)
      for (int i = blocks * units; i < (blocks * units + 3) / 4 * 4; ++i) out[i] = 0; // whole words of 64 bits
  };
}

// Any bits are 4 floats.
TERN_FN uint zfp_take(TERN_GLOBAL const unsigned short* in, int at) { return (uint)in[at >> 4] >> (at & 15) & 1u; }

TERN_KERNEL(decode, int n, int rate, TERN_GLOBAL const unsigned short* TERN_RESTRICT in,
            TERN_GLOBAL float* TERN_RESTRICT out) {
  TERN_REGION_IN((n + 3) / 4, 1, 1) {
    TERN_GLOBAL const unsigned short* const block = in + item.x * (rate / 4);
    const int budget = 4 * rate, first = 4 * item.x;
    uint v[4];
    for (int i = 0; i < 4; ++i) v[i] = 0;
    int at = 1;
    int e = 0;
    const uint some = zfp_take(block, 0);
    if (some != 0) {
      for (int i = 0; i < 8; ++i) e |= (int)(zfp_take(block, at++) << i);
      int m = 0;
      for (int k = 31; k >= 0 && at < budget; --k) {
        for (int i = 0; i < m && at < budget; ++i) v[i] |= zfp_take(block, at++) << k;
        int more = 1;
        while (more != 0 && m < 4 && at < budget) {
          more = (int)zfp_take(block, at++);
          if (more != 0) {
            int found = 0;
            while (found == 0 && m < 3 && at < budget) {
              found = (int)zfp_take(block, at++);
              if (found == 0) ++m;
            }
            v[m] |= 1u << k;
            ++m;
          }
        }
      }
    }
    int a = (int)((v[0] ^ 0xaaaaaaaau) - 0xaaaaaaaau), b = (int)((v[1] ^ 0xaaaaaaaau) - 0xaaaaaaaau);
    int c = (int)((v[2] ^ 0xaaaaaaaau) - 0xaaaaaaaau), d = (int)((v[3] ^ 0xaaaaaaaau) - 0xaaaaaaaau);
    b = zfp_add(b, d >> 1);
    d = zfp_sub(d, b >> 1);
    b = zfp_add(b, d);
    d = zfp_sub(zfp_add(d, d), b);
    c = zfp_add(c, a);
    a = zfp_sub(zfp_add(a, a), c);
    b = zfp_add(b, c);
    c = zfp_sub(zfp_add(c, c), b);
    d = zfp_add(d, a);
    a = zfp_sub(zfp_add(a, a), d);
    const float scale = zfp_power(e - 157); // 0 for what no encoder makes, and signs are kept
    out[first] = scale * (float)a;
    if (first + 1 < n) out[first + 1] = scale * (float)b;
    if (first + 2 < n) out[first + 2] = scale * (float)c;
    if (first + 3 < n) out[first + 3] = scale * (float)d;
  };
}

TERN_KERNELS_END(zfp_kernels)
