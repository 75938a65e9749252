package dev.eagre.connectors.upsert;

import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Numbers the rows of one record that have the same key, so that the last one is the newest. Rows of one
 * record are consecutive.
 */
final class KeyOrdinals {
    private record Place(long offset, Map<List<String>, Integer> counts) {}

    private final Map<String, Place> places = new HashMap<>();

    int next(String source, long offset, List<String> key) {
        Place place = places.get(source);
        if (place == null || place.offset != offset) {
            place = new Place(offset, new HashMap<>());
            places.put(source, place);
        }
        return place.counts.merge(key, 1, Integer::sum) - 1;
    }
}
