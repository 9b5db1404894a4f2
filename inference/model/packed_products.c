/* Products of float32 rows with weights packed in four or eight bits, for processors with AVX-512 VNNI or with AVX2.
 *
 * Weights keep the codes of their file. Sixteen output columns lie side by side, in groups of 32 inputs:
 *
 *     four bits    16 scales, 16 minimums (float16), then 4 vectors of 64 bytes: vector v holds, for each column, the
 *                  codes of inputs 4v to 4v + 3 in its low and of inputs 16 + 4v to 16 + 4v + 3 in its high nibbles
 *     eight bits   16 scales (float16), then 8 vectors of 64 bytes, codes plus 128, of inputs 4v to 4v + 3
 *
 * Every row is cut into the same groups and rounded to 15 bits, as 128 * high + low with both in eight bits, so that
 * the sums of a group are whole numbers and exact. Groups are added up in float32, first to last: a row's result does
 * not depend on the rows beside it, nor on which of the two kinds of processor computes it.
 */
#include <float.h>
#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#define GROUP 32
#define LANES 16
#define LARGEST 16256.0f /* 127 * 128 */
#define ROWS 4 /* computed together, so that unpacked weights are used more than once */
#define AHEAD 4096 /* bytes that weights are asked for before they are needed */

typedef struct {
    int8_t high[GROUP], low[GROUP];
    float scale;
    float sum;     /* of the rounded inputs */
    int32_t whole; /* the same in steps of the scale */
    int32_t unused;
} group_t;

/* How large a group's step is, and how many of them a number of one is; what is no number makes its whole row none. */
static inline float measure(group_t *group, float largest, float all)
{
    int is_finite = all <= FLT_MAX;
    group->scale = is_finite ? largest / LARGEST : NAN;
    return is_finite && largest > FLT_MIN * LARGEST ? LARGEST / largest : 0.0f;
}

static inline int32_t four_bytes(const int8_t *at) { return *(const int32_t *)at; }

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VNNI__)

static void round_row(const float *row, int width, group_t *groups)
{
    for (int g = 0; g < width / GROUP; g++, row += GROUP) {
        __m512 a = _mm512_loadu_ps(row), b = _mm512_loadu_ps(row + LANES);
        float largest = _mm512_reduce_max_ps(_mm512_max_ps(_mm512_abs_ps(a), _mm512_abs_ps(b)));
        float all = _mm512_reduce_add_ps(_mm512_add_ps(_mm512_abs_ps(a), _mm512_abs_ps(b)));
        __m512 steps = _mm512_set1_ps(measure(&groups[g], largest, all));
        __m512i qa = _mm512_cvtps_epi32(_mm512_mul_ps(a, steps)), qb = _mm512_cvtps_epi32(_mm512_mul_ps(b, steps));
        __m512i half = _mm512_set1_epi32(64);
        __m512i ha = _mm512_srai_epi32(_mm512_add_epi32(qa, half), 7), hb = _mm512_srai_epi32(_mm512_add_epi32(qb, half), 7);
        _mm_storeu_si128((__m128i *)groups[g].high, _mm512_cvtepi32_epi8(ha));
        _mm_storeu_si128((__m128i *)(groups[g].high + LANES), _mm512_cvtepi32_epi8(hb));
        _mm_storeu_si128((__m128i *)groups[g].low, _mm512_cvtepi32_epi8(_mm512_sub_epi32(qa, _mm512_slli_epi32(ha, 7))));
        _mm_storeu_si128((__m128i *)(groups[g].low + LANES), _mm512_cvtepi32_epi8(_mm512_sub_epi32(qb, _mm512_slli_epi32(hb, 7))));
        groups[g].whole = _mm512_reduce_add_epi32(_mm512_add_epi32(qa, qb));
        groups[g].sum = groups[g].scale * (float)groups[g].whole;
    }
}

static inline __m512i spread(const int8_t *at) { return _mm512_set1_epi32(four_bytes(at)); }

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
            _mm_prefetch((const char *)packed + AHEAD + 64 * v, _MM_HINT_T0);
            __m512i first = _mm512_and_si512(both, mask), second = _mm512_and_si512(_mm512_srli_epi16(both, 4), mask);
            for (int r = 0; r < count; r++) {
                const group_t *x = groups + r * num_groups + g;
                high[r] = _mm512_dpbusd_epi32(high[r], first, spread(x->high + 4 * v));
                low[r] = _mm512_dpbusd_epi32(low[r], first, spread(x->low + 4 * v));
                high[r] = _mm512_dpbusd_epi32(high[r], second, spread(x->high + 16 + 4 * v));
                low[r] = _mm512_dpbusd_epi32(low[r], second, spread(x->low + 16 + 4 * v));
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
            _mm_prefetch((const char *)packed + AHEAD + 64 * v, _MM_HINT_T0);
            for (int r = 0; r < count; r++) {
                const group_t *x = groups + r * num_groups + g;
                high[r] = _mm512_dpbusd_epi32(high[r], codes, spread(x->high + 4 * v));
                low[r] = _mm512_dpbusd_epi32(low[r], codes, spread(x->low + 4 * v));
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

#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)

#define HALF 8 /* of the lanes: what a vector holds */

static inline float largest_of(__m256 v)
{
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    four = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(four, _mm_movehdup_ps(four)));
}

static inline float sum_of(__m256 v)
{
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    four = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(four, _mm_movehdup_ps(four)));
}

static inline int32_t whole_sum_of(__m256i v)
{
    __m128i four = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(four, _mm_shuffle_epi32(four, 0xb1)));
}

/* Four vectors of 32-bit numbers to one of bytes, in order. */
static inline __m256i bytes_of(const __m256i v[4])
{
    __m256i packed = _mm256_packs_epi16(_mm256_packs_epi32(v[0], v[1]), _mm256_packs_epi32(v[2], v[3]));
    return _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

static void round_row(const float *row, int width, group_t *groups)
{
    const __m256 sign = _mm256_set1_ps(-0.0f);
    for (int g = 0; g < width / GROUP; g++, row += GROUP) {
        __m256 x[4], largest = _mm256_setzero_ps(), all = _mm256_setzero_ps();
        for (int i = 0; i < 4; i++) {
            x[i] = _mm256_loadu_ps(row + HALF * i);
            __m256 size = _mm256_andnot_ps(sign, x[i]);
            largest = _mm256_max_ps(largest, size);
            all = _mm256_add_ps(all, size);
        }
        __m256 steps = _mm256_set1_ps(measure(&groups[g], largest_of(largest), sum_of(all)));
        __m256i high[4], low[4], whole = _mm256_setzero_si256();
        for (int i = 0; i < 4; i++) {
            __m256i q = _mm256_cvtps_epi32(_mm256_mul_ps(x[i], steps));
            high[i] = _mm256_srai_epi32(_mm256_add_epi32(q, _mm256_set1_epi32(64)), 7);
            low[i] = _mm256_sub_epi32(q, _mm256_slli_epi32(high[i], 7));
            whole = _mm256_add_epi32(whole, q);
        }
        _mm256_storeu_si256((__m256i *)groups[g].high, bytes_of(high));
        _mm256_storeu_si256((__m256i *)groups[g].low, bytes_of(low));
        groups[g].whole = whole_sum_of(whole);
        groups[g].sum = groups[g].scale * (float)groups[g].whole;
    }
}

static inline __m256i spread(const int8_t *at) { return _mm256_set1_epi32(four_bytes(at)); }

static inline __m256i half_vector(const uint8_t *at) { return _mm256_loadu_si256((const __m256i *)at); }

static inline __m256 halves(const uint8_t *at) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)at)); }

static inline __attribute__((always_inline)) void four_bit_block(
    const group_t *groups, int num_groups, int count, const uint8_t *packed, float *out, int out_width)
{
    const __m256i mask = _mm256_set1_epi8(15), ones = _mm256_set1_epi16(1), steps = _mm256_set1_epi16(128);
    __m256 sums[2][ROWS];
    for (int r = 0; r < count; r++) sums[0][r] = sums[1][r] = _mm256_setzero_ps();
    for (int g = 0; g < num_groups; g++, packed += 64 + 4 * 64) {
        for (int side = 0; side < 2; side++) {
            /* Sixteen products of a column and an input's part are at most 16 * 15 * 127 = 30480: they fit 16 bits. */
            __m256i high[ROWS], low[ROWS];
            for (int r = 0; r < count; r++) high[r] = low[r] = _mm256_setzero_si256();
            for (int v = 0; v < 4; v++) {
                __m256i both = half_vector(packed + 64 + 64 * v + 32 * side);
                if (!side) _mm_prefetch((const char *)packed + AHEAD + 64 * v, _MM_HINT_T0);
                __m256i first = _mm256_and_si256(both, mask), second = _mm256_and_si256(_mm256_srli_epi16(both, 4), mask);
                for (int r = 0; r < count; r++) {
                    const group_t *x = groups + r * num_groups + g;
                    high[r] = _mm256_add_epi16(high[r], _mm256_maddubs_epi16(first, spread(x->high + 4 * v)));
                    low[r] = _mm256_add_epi16(low[r], _mm256_maddubs_epi16(first, spread(x->low + 4 * v)));
                    high[r] = _mm256_add_epi16(high[r], _mm256_maddubs_epi16(second, spread(x->high + 16 + 4 * v)));
                    low[r] = _mm256_add_epi16(low[r], _mm256_maddubs_epi16(second, spread(x->low + 16 + 4 * v)));
                }
            }
            __m256 scales = halves(packed + 16 * side), minimums = halves(packed + 32 + 16 * side);
            for (int r = 0; r < count; r++) {
                const group_t *x = groups + r * num_groups + g;
                __m256i whole = _mm256_add_epi32(_mm256_madd_epi16(high[r], steps), _mm256_madd_epi16(low[r], ones));
                __m256 scale = _mm256_mul_ps(scales, _mm256_set1_ps(x->scale));
                sums[side][r] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(whole), scale, sums[side][r]);
                sums[side][r] = _mm256_fmadd_ps(minimums, _mm256_set1_ps(x->sum), sums[side][r]);
            }
        }
    }
    for (int r = 0; r < count; r++)
        for (int side = 0; side < 2; side++) _mm256_storeu_ps(out + (long)r * out_width + HALF * side, sums[side][r]);
}

static inline __attribute__((always_inline)) void eight_bit_block(
    const group_t *groups, int num_groups, int count, const uint8_t *packed, float *out, int out_width)
{
    const __m256i middle = _mm256_set1_epi8(-128), ones = _mm256_set1_epi16(1), steps = _mm256_set1_epi16(128);
    __m256 sums[2][ROWS];
    for (int r = 0; r < count; r++) sums[0][r] = sums[1][r] = _mm256_setzero_ps();
    for (int g = 0; g < num_groups; g++, packed += 32 + 8 * 64) {
        for (int side = 0; side < 2; side++) {
            __m256i whole[ROWS];
            for (int r = 0; r < count; r++) whole[r] = _mm256_setzero_si256();
            for (int v = 0; v < 8; v++) {
                __m256i codes = _mm256_xor_si256(half_vector(packed + 32 + 64 * v + 32 * side), middle);
                if (!side) _mm_prefetch((const char *)packed + AHEAD + 64 * v, _MM_HINT_T0);
                /* The sign goes over to the input, for one factor must have none: 2 * 127 * 127 fits 16 bits. */
                __m256i size = _mm256_abs_epi8(codes);
                for (int r = 0; r < count; r++) {
                    const group_t *x = groups + r * num_groups + g;
                    __m256i high = _mm256_maddubs_epi16(size, _mm256_sign_epi8(spread(x->high + 4 * v), codes));
                    __m256i low = _mm256_maddubs_epi16(size, _mm256_sign_epi8(spread(x->low + 4 * v), codes));
                    whole[r] = _mm256_add_epi32(whole[r], _mm256_madd_epi16(high, steps));
                    whole[r] = _mm256_add_epi32(whole[r], _mm256_madd_epi16(low, ones));
                }
            }
            __m256 scales = halves(packed + 16 * side);
            for (int r = 0; r < count; r++) {
                __m256 scale = _mm256_mul_ps(scales, _mm256_set1_ps(groups[r * num_groups + g].scale));
                sums[side][r] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(whole[r]), scale, sums[side][r]);
            }
        }
    }
    for (int r = 0; r < count; r++)
        for (int side = 0; side < 2; side++) _mm256_storeu_ps(out + (long)r * out_width + HALF * side, sums[side][r]);
}

#else
#error the processor has neither AVX-512 VNNI nor AVX2
#endif

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
