"""The metrics pipeline: what hosts and services measure, per window, and what stands out.

samples     records become samples of series
statistics  percentiles, of values and of merged histograms (pure)
series      one series, window by window: figures, rates, what is remembered (pure)
deviation   when a window stands out from those before it (pure)
rollups     all series of closed windows, on Spark
results     the same to a topic
"""
