package dev.eagre.bench.flink;

/** The state of a card, or of a card's window; a POJO by Flink's rules. */
public class Totals {
    public long n;
    public long total;
    public long least = Long.MAX_VALUE;
    public long largest = Long.MIN_VALUE;

    Totals add(long amount) {
        n++;
        total += amount;
        least = Math.min(least, amount);
        largest = Math.max(largest, amount);
        return this;
    }
}
