package dev.eagre.bench.streams;

/** A record with an event time, in milliseconds since 1970. */
interface WithEventTime {
    long time();
}
