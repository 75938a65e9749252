package dev.eagre.bench.streams;

/** What has a time of its own, in milliseconds since 1970. */
interface Timed {
    long time();
}
