from __future__ import annotations

import pytest

from pytest_battery.saying.bounds import median_bounds, newcombe, on_its_side, t_quantile, unanimous_bounds, wilson

# scipy.stats.t.ppf(probability, df), scipy 1.17.1; columns are probabilities .8, .95, .975, .995.
T_QUANTILES = {
    1: (1.3763819204711738, 6.313751514675037, 12.706204736174694, 63.656741162871526),
    2: (1.0606601717798214, 2.9199855803537242, 4.302652729749462, 9.924843200918287),
    3: (0.9784723123633042, 2.3533634348018233, 3.1824463052837078, 5.840909309733355),
    5: (0.9195437802408271, 2.0150483733330233, 2.5705818356363146, 4.032142983555228),
    7: (0.8960296443137653, 1.8945786050900062, 2.364624251592784, 3.4994832973504924),
    11: (0.8755299780738819, 1.7958848187040433, 2.200985160091639, 3.1058065155392804),
    39: (0.8509350199201249, 1.6848751217112248, 2.022690920036761, 2.707913183517662),
    99: (0.8452670319534972, 1.6603911560169906, 1.9842169515864174, 2.626405457280827),
    200: (0.8434221315354185, 1.6525081009108769, 1.9718962236339088, 2.600634436191558),
    201: (0.8434131535503544, 1.6524698419699857, 1.971836506779859, 2.6005099190831933),
    500: (0.8423407061535052, 1.6479068539295105, 1.9647198374673676, 2.5856978351419415),
}


@pytest.mark.parametrize("df", T_QUANTILES)
def test_t_quantile_equals_scipy(df: int) -> None:
    found = [t_quantile(probability, df) for probability in (0.8, 0.95, 0.975, 0.995)]
    assert found == pytest.approx(T_QUANTILES[df], rel=1e-10)


def test_t_quantile_of_a_half_is_zero() -> None:
    assert t_quantile(0.5, 7) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(("probability", "df"), [(0.3, 5), (1.0, 5), (0.975, 0)])
def test_t_quantile_refuses_what_it_cannot_do(probability: float, df: int) -> None:
    with pytest.raises(ValueError, match="no t quantile"):
        t_quantile(probability, df)


def test_wilson_never_leaves_zero_to_one_and_is_never_a_point() -> None:
    for rate in (0.0, 0.3, 1.0):
        lo, hi = wilson(rate, 3, 1.96)
        assert 0 <= lo < hi <= 1


def test_newcombe_of_two_perfect_cells_is_as_wide_as_five_runs_allow() -> None:
    assert newcombe(5, 5, 5, 5) == pytest.approx((-0.43448246478317487, 0.43448246478317487), abs=1e-9)


@pytest.mark.parametrize(
    ("gap", "cases", "expected"),
    [(0.0, 8, (-0.369, 0.369)), (0.0, 40, (-0.088, 0.088)), (1.0, 6, (0.081, 1.0)), (-1.0, 6, (-1.0, -0.081))],
)
def test_unanimous_cases_have_the_exact_bound(gap: float, cases: int, expected: tuple[float, float]) -> None:
    assert unanimous_bounds(gap, cases) == pytest.approx(expected, abs=1e-3)


def test_a_bound_around_a_point_does_not_cross_zero() -> None:
    assert on_its_side(0.2, (-0.1, 0.5)) == (0.2, 0.5)
    assert on_its_side(-0.2, (-0.5, 0.1)) == (-0.5, -0.2)
    assert on_its_side(0.2, (0.1, 0.5)) == (0.1, 0.5)
    assert on_its_side(0.0, (-0.1, 0.5)) == (-0.1, 0.5)


def test_bounds_of_a_median_need_six_values() -> None:
    assert median_bounds([1, 2, 3, 4, 5]) is None
    assert median_bounds([6, 1, 2, 5, 4, 3]) == (1, 6)
    assert median_bounds(list(range(1, 10))) == (2, 8)  # 2 * (1 + 9) / 2**9 = .039
