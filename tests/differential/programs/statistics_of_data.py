import statistics as s
data = [2.5, 3.25, 5.5, 11.25, 11.25, 19.75, 0.5, 4, 4, 4]
print(s.mean(data), s.fmean(data), s.median(data), s.mode(data), s.multimode([1, 1, 2, 2, 3]), s.median_grouped(data))
print(s.stdev(data), s.pstdev(data), s.variance(data), s.geometric_mean(data), s.harmonic_mean(data), s.quantiles(data, n=4))
print(s.correlation(data, data[::-1]), s.linear_regression(range(10), data), s.covariance(data, list(range(10))))
n = s.NormalDist(100, 15)
print(n.cdf(130), n.inv_cdf(.95), n.pdf(100), n.overlap(s.NormalDist(110, 10)), n + n, s.NormalDist.from_samples(data))
# %% raises statistics.StatisticsError
s.mean([])
