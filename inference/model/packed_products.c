/* Products of float32 rows with weights packed in four or eight bits, for processors with AVX-512 VNNI.
 *
 * Weights keep the codes of their file. Sixteen output columns lie side by side, in groups of 32 inputs:
 *
 *     four bits    16 scales, 16 minimums (float16), then 4 vectors of 64 bytes: vector v holds, for each column, the
 *                  codes of inputs 4v to 4v + 3 in its low and of inputs 16 + 4v to 16 + 4v + 3 in its high nibbles
 *     eight bits   16 scales (float16), then 8 vectors of 64 bytes, codes plus 128, of inputs 4v to 4v + 3
 *
 * Every row is cut into the same groups and rounded to 15 bits, as 128 * high + low with both in eight bits, so that
 * the sums of a group are whole numbers and exact. Groups are added up in float32, first to last: a row's result does
 * not depend on the rows beside it.
 */
#if !defined(__AVX512F__) || !defined(__AVX512BW__) || !defined(__AVX512VNNI__)
#error the processor has no AVX-512 VNNI
#endif

#include <float.h>
#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#define GROUP 32
#define LANES 16
#define LARGEST 16256.0f /* 127 * 128 */
#define ROWS 4 /* computed together, so that unpacked weights are used more than once */

typedef struct {
    int8_t high[GROUP], low[GROUP];
    float scale;
    float sum;     /* of the rounded inputs */
    int32_t whole; /* the same in steps of the scale */
    int32_t unused;
} group_t;

static void round_row(const float *row, int width, group_t *groups)
{
    for (int g = 0; g < width / GROUP; g++, row += GROUP) {
        __m512 a = _mm512_loadu_ps(row), b = _mm512_loadu_ps(row + LANES);
        float largest = _mm512_reduce_max_ps(_mm512_max_ps(_mm512_abs_ps(a), _mm512_abs_ps(b)));
        float all = _mm512_reduce_add_ps(_mm512_add_ps(_mm512_abs_ps(a), _mm512_abs_ps(b)));
        int is_finite = all <= FLT_MAX;
        float scale = is_finite ? largest / LARGEST : NAN; /* what is no number makes its whole row none */
        __m512 steps = _mm512_set1_ps(is_finite && largest > FLT_MIN * LARGEST ? LARGEST / largest : 0.0f);
        __m512i qa = _mm512_cvtps_epi32(_mm512_mul_ps(a, steps)), qb = _mm512_cvtps_epi32(_mm512_mul_ps(b, steps));
        __m512i half = _mm512_set1_epi32(64);
        __m512i ha = _mm512_srai_epi32(_mm512_add_epi32(qa, half), 7), hb = _mm512_srai_epi32(_mm512_add_epi32(qb, half), 7);
        _mm_storeu_si128((__m128i *)groups[g].high, _mm512_cvtepi32_epi8(ha));
        _mm_storeu_si128((__m128i *)(groups[g].high + LANES), _mm512_cvtepi32_epi8(hb));
        _mm_storeu_si128((__m128i *)groups[g].low, _mm512_cvtepi32_epi8(_mm512_sub_epi32(qa, _mm512_slli_epi32(ha, 7))));
        _mm_storeu_si128((__m128i *)(groups[g].low + LANES), _mm512_cvtepi32_epi8(_mm512_sub_epi32(qb, _mm512_slli_epi32(hb, 7))));
        groups[g].whole = _mm512_reduce_add_epi32(_mm512_add_epi32(qa, qb));
        groups[g].scale = scale;
        groups[g].sum = scale * (float)groups[g].whole;
    }
}

static inline __m512i four_bytes(const int8_t *at) { return _mm512_set1_epi32(*(const int32_t *)at); }

static inline __m512 halves(const uint8_t *at) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)at)); }

static inline __attribute__((always_inline)) void four_bit_block(
    const group_t *groups, int num_groups, int count, const uint8_t *packed, float *out, int out_width)
{
    const __m512i mask = _mm512_set1_epi8(15);
    __m512 sums[ROWS];
    for (int r = 0; r < count; r++) sums[r] = _mm512_setzero_ps();
    for (int g = 0; g < num_groups; g++, packed += 64 + 4 * 64) {
        __m512 scales = halves(packed), minimums = halves(packed + 32);
        __m512i high[ROWS], low[ROWS];
        for (int r = 0; r < count; r++) high[r] = low[r] = _mm512_setzero_si512();
        for (int v = 0; v < 4; v++) {
            __m512i both = _mm512_loadu_si512(packed + 64 + 64 * v);
            _mm_prefetch((const char *)packed + 4096 + 64 * v, _MM_HINT_T0);
            __m512i first = _mm512_and_si512(both, mask), second = _mm512_and_si512(_mm512_srli_epi16(both, 4), mask);
            for (int r = 0; r < count; r++) {
                const group_t *x = groups + r * num_groups + g;
                high[r] = _mm512_dpbusd_epi32(high[r], first, four_bytes(x->high + 4 * v));
                low[r] = _mm512_dpbusd_epi32(low[r], first, four_bytes(x->low + 4 * v));
                high[r] = _mm512_dpbusd_epi32(high[r], second, four_bytes(x->high + 16 + 4 * v));
                low[r] = _mm512_dpbusd_epi32(low[r], second, four_bytes(x->low + 16 + 4 * v));
            }
        }
        for (int r = 0; r < count; r++) {
            const group_t *x = groups + r * num_groups + g;
            __m512 exact = _mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_slli_epi32(high[r], 7), low[r]));
            sums[r] = _mm512_fmadd_ps(exact, _mm512_mul_ps(scales, _mm512_set1_ps(x->scale)), sums[r]);
            sums[r] = _mm512_fmadd_ps(minimums, _mm512_set1_ps(x->sum), sums[r]);
        }
    }
    for (int r = 0; r < count; r++) _mm512_storeu_ps(out + (long)r * out_width, sums[r]);
}

static inline __attribute__((always_inline)) void eight_bit_block(
    const group_t *groups, int num_groups, int count, const uint8_t *packed, float *out, int out_width)
{
    __m512 sums[ROWS];
    for (int r = 0; r < count; r++) sums[r] = _mm512_setzero_ps();
    for (int g = 0; g < num_groups; g++, packed += 32 + 8 * 64) {
        __m512 scales = halves(packed);
        __m512i high[ROWS], low[ROWS];
        for (int r = 0; r < count; r++) {
            high[r] = _mm512_setzero_si512();
            low[r] = _mm512_set1_epi32(-128 * groups[r * num_groups + g].whole);
        }
        for (int v = 0; v < 8; v++) {
            __m512i codes = _mm512_loadu_si512(packed + 32 + 64 * v);
            _mm_prefetch((const char *)packed + 4096 + 64 * v, _MM_HINT_T0);
            for (int r = 0; r < count; r++) {
                const group_t *x = groups + r * num_groups + g;
                high[r] = _mm512_dpbusd_epi32(high[r], codes, four_bytes(x->high + 4 * v));
                low[r] = _mm512_dpbusd_epi32(low[r], codes, four_bytes(x->low + 4 * v));
            }
        }
        for (int r = 0; r < count; r++) {
            __m512 exact = _mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_slli_epi32(high[r], 7), low[r]));
            __m512 scale = _mm512_set1_ps(groups[r * num_groups + g].scale);
            sums[r] = _mm512_fmadd_ps(exact, _mm512_mul_ps(scales, scale), sums[r]);
        }
    }
    for (int r = 0; r < count; r++) _mm512_storeu_ps(out + (long)r * out_width, sums[r]);
}

#define PRODUCT(name, block, group_bytes)                                                                       \
    /* rows [num_rows, width], packed [out_width / 16, width / 32, group_bytes], out [num_rows, out_width]; not 0 is */ \
    /* a lack of memory */                                                                                      \
    int name(const float *rows, long num_rows, long width, const uint8_t *packed, float *out, long out_width)   \
    {                                                                                                           \
        long num_groups = width / GROUP, r;                                                                     \
        group_t *groups = malloc(num_rows * num_groups * sizeof(group_t));                                      \
        if (!groups) return 1;                                                                                  \
        for (r = 0; r < num_rows; r++) round_row(rows + r * width, width, groups + r * num_groups);             \
        for (long column = 0; column < out_width; column += LANES, packed += num_groups * (group_bytes)) {      \
            for (r = 0; r + ROWS <= num_rows; r += ROWS)                                                        \
                block(groups + r * num_groups, num_groups, ROWS, packed, out + r * out_width + column, out_width); \
            for (; r < num_rows; r++)                                                                           \
                block(groups + r * num_groups, num_groups, 1, packed, out + r * out_width + column, out_width); \
        }                                                                                                       \
        free(groups);                                                                                           \
        return 0;                                                                                               \
    }

PRODUCT(four_bit_product, four_bit_block, 64 + 4 * 64)
PRODUCT(eight_bit_product, eight_bit_block, 32 + 8 * 64)
