#pragma once

#include <ATen/xpu/detail/Widening.h>

#include <array>

namespace at::xpu::detail {

/// The operators of aten whose kernels for the CPU lack narrow types in this
/// release of PyTorch: all overloads, and without the underscore of those in
/// place. test_xpu_narrow_types.py proves it.
// clang-format off
constexpr std::array<LackingOps, 4> kLacking{{
    {kAllNarrowTypes,
     " _cholesky_solve_helper _linalg_det _linalg_eigh _linalg_solve_ex "
     "_linalg_svd cholesky cholesky_inverse geqrf linalg_cholesky_ex "
     "linalg_eig linalg_eigvals linalg_householder_product "
     "linalg_ldl_factor_ex linalg_ldl_solve linalg_lu linalg_lu_factor_ex "
     "linalg_lu_solve linalg_qr linalg_solve_triangular ormqr triangular_solve "},
    {kNarrowHalf | kNarrowBFloat16,
     " _cdist_backward _cdist_forward _ctc_loss _ctc_loss_backward "
     "_histogramdd_bin_edges _histogramdd_from_bin_cts _pdist_backward "
     "_pdist_forward _upsample_bilinear2d_aa _upsample_bilinear2d_aa_backward "
     "avg_pool3d avg_pool3d_backward histogram multi_margin_loss "
     "multi_margin_loss_backward multilabel_margin_loss_backward "
     "multilabel_margin_loss_forward special_airy_ai special_bessel_j0 "
     "special_bessel_j1 special_bessel_y0 special_bessel_y1 "
     "special_chebyshev_polynomial_t special_chebyshev_polynomial_u "
     "special_chebyshev_polynomial_v special_chebyshev_polynomial_w "
     "special_erfcx special_hermite_polynomial_h special_hermite_polynomial_he "
     "special_laguerre_polynomial_l special_legendre_polynomial_p "
     "special_log_ndtr special_modified_bessel_i0 special_modified_bessel_i1 "
     "special_modified_bessel_k0 special_modified_bessel_k1 special_ndtri "
     "special_scaled_modified_bessel_k0 special_scaled_modified_bessel_k1 "
     "special_shifted_chebyshev_polynomial_t "
     "special_shifted_chebyshev_polynomial_u "
     "special_shifted_chebyshev_polynomial_v "
     "special_shifted_chebyshev_polynomial_w special_spherical_bessel_j0 "
     "special_zeta "},
    {kNarrowHalf,
     " polar rrelu_with_noise "},
    {kNarrowComplexHalf,
     " _logcumsumexp acos acosh addbmm addcdiv addmm addmv addr angle asin "
     "asinh atan atanh baddbmm bmm channel_shuffle col2im cos cosh cumprod "
     "cumsum div dot equal exp exp2 expm1 eye flip gather im2col lerp "
     "linalg_cross linalg_matrix_exp linspace log log10 log1p log2 logaddexp "
     "logical_and logical_not logical_or logical_xor logspace lu_unpack "
     "masked_scatter mean mm pixel_shuffle pixel_unshuffle pow prod put "
     "reciprocal reflection_pad1d reflection_pad1d_backward reflection_pad2d "
     "reflection_pad2d_backward replication_pad1d replication_pad1d_backward "
     "replication_pad2d replication_pad2d_backward rsqrt scatter scatter_add "
     "sigmoid sigmoid_backward silu sin sinc sinh sqrt sum take tan tanh "
     "tanh_backward trace unfold_backward vdot "},
}};
// clang-format on

} // namespace at::xpu::detail
