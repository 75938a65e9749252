package dev.eagre.delivery;

/** A pipeline that does not support the requested delivery; Python reads code and hint through the getters. */
public final class UnsupportedPipeline extends IllegalArgumentException {
    private final String code;
    private final String hint;

    UnsupportedPipeline(String code, String problem, String hint) {
        super(problem);
        this.code = code;
        this.hint = hint;
    }

    public String getCode() {
        return code;
    }

    public String getHint() {
        return hint;
    }
}
