//! Single values that stand for many measurements.

use anyhow::Result;

/// Returns the median; of an even number of values the greater of the two in the middle.
pub fn median<T: Copy + Ord>(mut values: Vec<T>) -> T {
    values.sort_unstable();
    values[values.len() / 2]
}

/// Returns the 99th percentile.
pub fn percentile_99<T: Copy + Ord>(mut values: Vec<T>) -> T {
    values.sort_unstable();
    values[(values.len() * 99 / 100).min(values.len() - 1)]
}

/// Measures something so many times.
pub fn repeat<T>(times: usize, mut measure: impl FnMut() -> Result<T>) -> Result<Vec<T>> {
    (0..times).map(|_| measure()).collect()
}

/// Returns the median of a value of each measurement.
pub fn median_of<T, V: Copy + Ord>(measured: &[T], value: impl Fn(&T) -> V) -> V {
    median(measured.iter().map(value).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_is_the_greater_of_the_two_in_the_middle() {
        assert_eq!(median(vec![5, 1, 3]), 3);
        assert_eq!(median(vec![4, 1, 2, 3]), 3);
    }
}
