#pragma once

#include <ATen/xpu/detail/Widening.h>

#include <array>

namespace at::xpu::detail {

/// The operators of aten whose kernels for the CPU lack narrow types in this
/// release of PyTorch: all overloads, and without the underscore of those in
/// place. test_xpu_narrow_types.py proves it.
// clang-format off
constexpr std::array<LackingOps, 7> kLacking{{
    {kAllNarrowTypes,
     " _cholesky_solve_helper _linalg_det _linalg_eigh _linalg_solve_ex "
     "_linalg_svd _symeig_helper cholesky cholesky_inverse geqrf "
     "linalg_cholesky_ex linalg_eig linalg_householder_product "
     "linalg_ldl_factor_ex linalg_ldl_solve linalg_lu linalg_lu_factor_ex "
     "linalg_lu_solve linalg_qr linalg_solve_triangular ormqr prod "
     "reflection_pad1d reflection_pad1d_backward reflection_pad2d "
     "reflection_pad2d_backward replication_pad1d replication_pad1d_backward "
     "replication_pad2d replication_pad2d_backward trace triangular_solve "},
    {kNarrowHalf | kNarrowBFloat16,
     " _cdist_backward _cdist_forward _ctc_loss _ctc_loss_backward "
     "_histogramdd_bin_edges _histogramdd_from_bin_cts _pdist_backward "
     "_pdist_forward adaptive_max_pool3d adaptive_max_pool3d_backward aminmax "
     "avg_pool3d avg_pool3d_backward binary_cross_entropy "
     "binary_cross_entropy_backward fractional_max_pool2d "
     "fractional_max_pool2d_backward fractional_max_pool3d "
     "fractional_max_pool3d_backward grid_sampler_2d grid_sampler_2d_backward "
     "grid_sampler_3d grid_sampler_3d_backward hardtanh_backward histogram "
     "isin max_pool3d_with_indices max_pool3d_with_indices_backward "
     "max_unpool2d max_unpool3d mish mish_backward mse_loss_backward "
     "multi_margin_loss multi_margin_loss_backward "
     "multilabel_margin_loss_backward multilabel_margin_loss_forward "
     "special_airy_ai special_bessel_j0 special_bessel_j1 special_bessel_y0 "
     "special_bessel_y1 special_chebyshev_polynomial_t "
     "special_chebyshev_polynomial_u special_chebyshev_polynomial_v "
     "special_chebyshev_polynomial_w special_erfcx "
     "special_hermite_polynomial_h special_hermite_polynomial_he special_i1 "
     "special_i1e special_laguerre_polynomial_l special_legendre_polynomial_p "
     "special_log_ndtr special_modified_bessel_i0 special_modified_bessel_i1 "
     "special_modified_bessel_k0 special_modified_bessel_k1 special_ndtri "
     "special_scaled_modified_bessel_k0 special_scaled_modified_bessel_k1 "
     "special_shifted_chebyshev_polynomial_t "
     "special_shifted_chebyshev_polynomial_u "
     "special_shifted_chebyshev_polynomial_v "
     "special_shifted_chebyshev_polynomial_w special_spherical_bessel_j0 "
     "special_zeta "},
    {kNarrowHalf | kNarrowComplexHalf,
     " _foreach_acos _foreach_addcdiv _foreach_addcmul _foreach_asin "
     "_foreach_atan _foreach_cos _foreach_cosh _foreach_exp _foreach_log "
     "_foreach_log10 _foreach_log2 _foreach_sigmoid _foreach_sin _foreach_sinh "
     "_foreach_sqrt _foreach_tan _foreach_tanh acos acosh addbmm addcdiv "
     "addcmul addmm addmv asin asinh atan atanh baddbmm bmm cos cosh cumprod "
     "cumsum diag dot exp lerp linalg_cross linalg_matrix_exp log log10 log2 "
     "logspace mm rsqrt sigmoid silu sin sinc sinh sqrt tan tanh tanh_backward "
     "vdot "},
    {kNarrowBFloat16 | kNarrowComplexHalf,
     " eye "},
    {kNarrowHalf,
     " _adaptive_avg_pool2d _adaptive_avg_pool2d_backward _cummax_helper "
     "_cummin_helper _foreach_ceil _foreach_erf _foreach_erfc _foreach_expm1 "
     "_foreach_floor _foreach_lgamma _foreach_log1p _foreach_round "
     "_foreach_trunc _histogramdd_from_bin_tensors _log_softmax "
     "_log_softmax_backward_data _logcumsumexp _softmax _softmax_backward_data "
     "_unique2 adaptive_max_pool2d adaptive_max_pool2d_backward atan2 "
     "avg_pool2d avg_pool2d_backward bernoulli ceil clamp clamp_min "
     "convolution convolution_backward digamma elu elu_backward erf erfc "
     "erfinv expm1 floor gelu gelu_backward glu glu_backward hardshrink "
     "hardshrink_backward hardsigmoid hardsigmoid_backward hardswish "
     "hardswish_backward hardtanh histc hypot i0 kthvalue leaky_relu "
     "leaky_relu_backward lgamma log1p log_sigmoid_backward "
     "log_sigmoid_forward logaddexp logaddexp2 logit logit_backward "
     "max_pool2d_with_indices max_pool2d_with_indices_backward median "
     "multinomial mvlgamma nanmedian native_batch_norm "
     "native_batch_norm_backward native_group_norm native_group_norm_backward "
     "native_layer_norm native_layer_norm_backward nextafter "
     "nll_loss2d_backward nll_loss2d_forward nll_loss_backward "
     "nll_loss_forward polar polygamma prelu prelu_backward relu round "
     "rrelu_with_noise silu_backward smooth_l1_loss_backward softplus "
     "softplus_backward softshrink softshrink_backward special_entr "
     "special_i0e threshold threshold_backward topk trunc unique_consecutive "
     "unique_dim upsample_bicubic2d upsample_bilinear2d "
     "upsample_bilinear2d_backward upsample_linear1d "
     "upsample_linear1d_backward upsample_nearest1d "
     "upsample_nearest1d_backward upsample_nearest2d "
     "upsample_nearest2d_backward upsample_nearest3d "
     "upsample_nearest3d_backward upsample_trilinear3d "
     "upsample_trilinear3d_backward "},
    {kNarrowBFloat16,
     " _adaptive_avg_pool3d _adaptive_avg_pool3d_backward _embedding_bag "
     "_embedding_bag_dense_backward mse_loss "},
    {kNarrowComplexHalf,
     " _foreach_div _foreach_norm _foreach_reciprocal addr angle col2im div "
     "equal flip gather im2col index_copy index_fill linalg_vector_norm "
     "linspace logical_and logical_not logical_or logical_xor lu_unpack "
     "masked_scatter masked_select mean norm pixel_shuffle pixel_unshuffle pow "
     "put reciprocal scatter scatter_add sigmoid_backward std std_mean sum "
     "take tril triu unfold_backward "},
}};
// clang-format on

} // namespace at::xpu::detail
