package dev.eagre.delivery;

/** A pipeline that cannot have what it asks for; the parts reach Python through the getters. */
public final class Refusal extends IllegalArgumentException {
    private final String code;
    private final String hint;

    Refusal(String code, String problem, String hint) {
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
