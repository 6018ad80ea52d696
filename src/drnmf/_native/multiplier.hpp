// The multiplier of every column whose sum is given, as updates/roots.py defines and searches it: at the root mu the sum
// of max(floor, f t) over a column is its total, where sum P_a t^a - sum N_b t^-b + mu = 0 in every entry.
//
// One column per lane. A lane that is done keeps its mu, so that a column does not depend on its neighbours.
// Where an entry hardly bends beside others that do, mu has too few digits to place it: the column then lies between
// those of the two ends of the bracket, where the sum is its total.
#pragma once

#include "kernels.hpp"
#include "vmath.hpp"

namespace drnmf::DRNMF_ISA_NAME {

// t^exponent, without the cost of a general power where there is a shorter way.
template <class T>
DRNMF_INLINE Vec<T> raised(Vec<T> t, double exponent) {
    if (exponent == 1.0) return t;
    if (exponent == 2.0) return t * t;
    if (exponent == 0.0) return broadcast(T(1));
    if (exponent == 0.5) return square_root<T>(t);
    return exp<T>(log<T>(t) * T(exponent));
}

// How t is found: N t^-b = c, P t^a = -c, two equations of second degree, and Newton's method for everything else.
enum class Roots { falling, rising, quadratic, two_falling, any };

inline Roots roots_of(const Multiplier& q) {
    if (q.rising == 0 && q.falling == 1) return Roots::falling;
    if (q.rising == 1 && q.falling == 0) return Roots::rising;
    if (q.rising == 1 && q.falling == 1 && q.exponents[0] == q.exponents[1]) return Roots::quadratic;
    if (q.rising == 0 && q.falling == 2 && q.exponents[0] == 1.0 && q.exponents[1] == 2.0) return Roots::two_falling;
    return Roots::any;
}

template <class T, Roots kind>
struct Columns {
    using V = Vec<T>;
    using Mask = IntVec<T>;
    static constexpr size_t L = kLanes<T>;
    const Multiplier& q;
    const size_t r;
    const bool pole;
    const double straight;  // the power of the sum that is all but straight in mu
    T *F, *constant, *terms, *t, *H;  // r x L each, of terms one for each
    V total, low, high, mu, span;
    Mask known, fresh, done, near;

    Columns(const Multiplier& step, char* scratch)
        : q(step), r(step.r), pole(step.rising == 0), straight(power_of_sum(step)) {
        F = reinterpret_cast<T*>(scratch), constant = F + r * L, t = constant + r * L, H = t + r * L, terms = H + r * L;
    }
    static double power_of_sum(const Multiplier& q) {
        if (q.rising && q.falling) return 1.0;
        double most = 0.0;
        for (int i = 0; i < q.rising + q.falling; ++i) most = q.exponents[i] > most ? q.exponents[i] : most;
        return q.rising ? most : -most;
    }
    static constexpr V none() { return V{}; }
    static DRNMF_INLINE bool any(Mask m) {
        bool found = false;
        for (size_t l = 0; l < L; ++l) found |= m[l] != 0;
        return found;
    }

    int count() const { return q.rising + q.falling; }
    T* term(int i) const { return terms + size_t(i) * r * L; }

    void run(size_t j) {
        size_t some = least(L, q.n - j);
        fetch(j, some);
        begin();
        for (int turn = 0; turn < q.steps && any(~done); ++turn) follow();
        if (any(known & ~near)) blend();
        write(j, some);
    }

    // Lanes beyond the last column repeat it.
    void fetch(size_t j, size_t some) {
        auto row = [&](const void* base, size_t at, T* to) {
            const T* from = static_cast<const T*>(base) + at;
            for (size_t l = 0; l < L; ++l) to[l] = from[least(l, some - 1)];
        };
        auto whole = [&](const void* base, size_t k, T* to) {
            if (some == L) store(to, load(static_cast<const T*>(base) + k * q.n + j));
            else row(base, k * q.n + j, to);
        };
        for (size_t k = 0; k < r; ++k) {
            whole(q.F, k, F + k * L);
            for (int i = 0; i < count(); ++i) whole(q.terms[i], k, term(i) + k * L);
            V c = none(), part;
            if (q.plus) whole(q.plus, k, reinterpret_cast<T*>(&part)), c += part;
            if (q.minus) whole(q.minus, k, reinterpret_cast<T*>(&part)), c -= part;
            store(constant + k * L, c);
            store(t + k * L, broadcast(T(1)));
        }
        whole(q.totals, 0, reinterpret_cast<T*>(&total));
    }

    // The bracket of mu, counted from the pole or from the largest slope, and a first value.
    void begin() {
        const V infinite = broadcast(T(__builtin_inf())), tiny = broadcast(T(1e-37));
        V shift = infinite;
        known = Mask{};
        for (size_t k = 0; k < r; ++k) {
            V slope = -load(constant + k * L), bend = bends(k, broadcast(T(1)), slope);
            Mask moves = (bend > T(0)) & (load(F + k * L) > T(0));
            known |= moves;
            store(H + k * L, moves ? bend : none());
            shift = smaller<T>(shift, moves ? (pole ? load(constant + k * L) : -slope) : infinite);
        }
        shift = known ? shift : none();
        low = high = -infinite, span = none();
        V weights = none(), slopes = none();
        for (size_t k = 0; k < r; ++k) {
            V bend = load(H + k * L), f = load(F + k * L), c = load(constant + k * L) - shift, slope = -c;
            Mask moves = bend > T(0);
            store(constant + k * L, c);
            span = larger<T>(span, moves ? larger<T>(c, -c) : none());
            bends(k, broadcast(T(1)), slope);
            V weight = moves ? f / bend : none(), share = total / f, least_mu = -c, most_mu = -c;
            weights += weight, slopes += weight * slope;
            bends(k, share, least_mu), bends(k, share * T(1.0 / double(r)), most_mu);
            low = larger<T>(moves ? least_mu : -infinite, low), high = larger<T>(moves ? most_mu : -infinite, high);
        }
        if (pole) low = larger<T>(low, tiny);
        V first = slopes / weights;
        mu = (first > low) & (first < high) ? first : low;
        fresh = known, done = ~known, near = Mask{};
        settle();
    }

    // Marks the entries that do not move, which stay or, beside a pole, vanish, and divides once what is divided by.
    void settle() {
        for (size_t k = 0; k < r; ++k) {
            Mask moves = load(H + k * L) > T(0);
            V f = load(F + k * L);
            store(constant + k * L, moves ? load(constant + k * L) : broadcast(T(__builtin_inf())));
            store(F + k * L, moves ? f : pole ? none() : f);
            if constexpr (kind == Roots::rising) store(term(0) + k * L, T(1) / load(term(0) + k * L));
        }
    }

    // sum a P t^a + sum b N t^-b; adds N t^-b - P t^a to the slope.
    DRNMF_INLINE V bends(size_t k, V at, V& slope) const {
        V bend = none();
        for (int i = 0; i < count(); ++i) {
            V power = raised<T>(at, q.exponents[i]), coefficient = load(term(i) + k * L);
            V part = i < q.rising ? coefficient * power : coefficient / power;
            bend += T(q.exponents[i]) * part;
            slope = i < q.rising ? slope - part : slope + part;
        }
        return bend;
    }

    // One step of Newton's method in every lane that is not done.
    void follow() {
        const V floor = broadcast(T(q.floor)), one = broadcast(T(1));
        V sum = none(), falls = none();
        for (size_t k = 0; k < r; ++k) {
            V f = load(F + k * L), fall, c = load(constant + k * L), at = root(k, c + mu, fall);
            Mask moves = c < T(__builtin_inf());
            V h = larger<T>(f * (moves ? at : one), floor);
            store(H + k * L, h);
            sum += h;
            falls += moves & (h > floor) & (fall > T(0)) ? f * fall : none();
        }
        V reached = sum / total, off = reached - one;
        Mask above = reached > one;
        low = above ? mu : low, high = above ? high : mu;
        fresh &= ~above;
        V next = mu + (reached - raised<T>(reached, 1.0 - straight)) * total / (T(straight) * falls);
        V middle = (low + high) * T(0.5);
        next = (next > low) & (next < high) ? next : fresh & (next <= low) ? low : middle;
        near |= ~done & (off <= T(q.tolerance)) & (off >= T(-q.tolerance));
        done |= near | (next == mu);
        mu = done ? mu : next;
    }

    // An entry at one end of the bracket.
    DRNMF_INLINE V at_end(size_t k, V end) {
        V f = load(F + k * L), c = load(constant + k * L), fall, at = root(k, c + end, fall);
        return larger<T>(f * (c < T(__builtin_inf()) ? at : broadcast(T(1))), broadcast(T(q.floor)));
    }

    // The point between the columns of both ends that has the total, in lanes whose mu did not reach it.
    void blend() {
        const T digits = T(4) * (sizeof(T) == 4 ? T(1.2e-7) : T(2.3e-16));  // what c + mu may have lost
        done = near;
        if (!pole) {
            low -= digits * (larger<T>(low, -low) + span), high += digits * (larger<T>(high, -high) + span);
        }
        V above = none(), below = none();
        for (size_t k = 0; k < r; ++k) above += at_end(k, low), below += at_end(k, high);
        V share = (total - below) / (above - below);  // of the upper column, which may be many times the total
        Mask between = known & ~near & (share >= T(0)) & (share <= T(1));
        for (size_t k = 0; k < r; ++k) {
            V most = at_end(k, low), least = at_end(k, high);
            store(H + k * L, between ? least + share * (most - least) : load(H + k * L));
        }
    }

    // t of an entry, and by how much it falls with mu.
    DRNMF_INLINE V root(size_t k, V c, V& fall) {
        const V first = load(term(0) + k * L);
        if constexpr (kind == Roots::falling) {  // N t^-b = c
            const double b = q.exponents[0];
            V inverse = broadcast(T(1)) / c, at = raised<T>(first * inverse, 1.0 / b);
            fall = at * inverse * T(1.0 / b);
            return at;
        } else if constexpr (kind == Roots::rising) {  // P t^a = -c; `settle` left 1 / P
            const double a = q.exponents[0];
            V wants = larger<T>(-c, none());
            if (a == 1.0) return fall = first, wants * first;
            V at = wants > T(0) ? raised<T>(wants * first, 1.0 / a) : none();
            fall = at / (wants * T(a));
            return at;
        } else if constexpr (kind == Roots::quadratic) {  // P t^2a + c t^a - N = 0
            V second = load(term(1) + k * L), square = square_root<T>(c * c + T(4) * first * second);
            V powered = c > T(0) ? T(2) * second / (c + square) : (square - c) / (T(2) * first);
            V at = powered > T(0) ? raised<T>(powered, 1.0 / q.exponents[0]) : none();
            fall = at / (T(q.exponents[0]) * square);  // P t^a + N t^-a is the square root
            return at;
        } else if constexpr (kind == Roots::two_falling) {  // c t^2 - N t - M = 0
            V second = load(term(1) + k * L), square = square_root<T>(first * first + T(4) * c * second);
            V at = (first + square) / (T(2) * c);
            fall = at * at / square;  // N / t + 2 M / t^2 is the square root over t
            return at;
        } else {
            return searched(k, c, fall);
        }
    }

    // Newton's method in s = log t on log sum P e^(as) - log sum N e^(-bs), from the t of the step before.
    V searched(size_t k, V c, V& fall) {
        const T reach = sizeof(T) == 4 ? T(80) : T(700), enough = sizeof(T) == 4 ? T(1e-6) : T(1e-11);
        V before = load(t + k * L), s = log<T>(before), bottom = broadcast(-reach), top = broadcast(reach);
        Mask found = done;
        for (int step = 0; step < 40 && any(~found); ++step) {
            V up = larger<T>(c, none()), down = larger<T>(-c, none()), up_slope = none(), down_slope = none();
            for (int i = 0; i < count(); ++i) {
                T e = T(q.exponents[i]);
                V part = load(term(i) + k * L) * exp<T>(s * (i < q.rising ? e : -e));
                if (i < q.rising) up += part, up_slope += e * part;
                else down += part, down_slope += e * part;
            }
            V g = log<T>(up) - log<T>(down), change = g / (up_slope / up + down_slope / down);
            bottom = g < T(0) ? s : bottom, top = g > T(0) ? s : top;
            V next = s - larger<T>(smaller<T>(change, broadcast(T(2))), broadcast(T(-2)));
            next = (next >= bottom) & (next <= top) ? next : (bottom + top) * T(0.5);
            V moved = next - s;
            s = found ? s : next;
            found |= (moved <= enough) & (moved >= -enough);
        }
        V slope = none(), at = done ? before : exp<T>(s);
        fall = at / bends(k, at, slope);
        store(t + k * L, at);
        return at;
    }

    // Scaled to the total; a column whose parts have no root is uniform.
    void write(size_t j, size_t some) {
        const V floor = broadcast(T(q.floor));
        V sum = none();
        for (size_t k = 0; k < r; ++k) sum += load(H + k * L);
        V scale = total / sum, even = larger<T>(total / T(double(r)), floor);
        for (size_t k = 0; k < r; ++k) {
            V h = known ? larger<T>(load(H + k * L) * scale, floor) : even;
            memcpy(static_cast<T*>(q.out) + k * q.n + j, &h, some * sizeof(T));
        }
    }
};

template <class T, Roots kind>
inline void multipliers_of(const Multiplier& q, size_t begin, size_t end, char* scratch) {
    Columns<T, kind> columns(q, scratch);
    for (size_t j = begin; j < end && !q.stopped(nullptr); j += kLanes<T>) columns.run(j);
}

// Columns begin ... end, begin a multiple of the lanes.
template <class T>
inline void multiplier(const Multiplier& q, size_t begin, size_t end, char* scratch) {
    switch (roots_of(q)) {
        case Roots::falling: return multipliers_of<T, Roots::falling>(q, begin, end, scratch);
        case Roots::rising: return multipliers_of<T, Roots::rising>(q, begin, end, scratch);
        case Roots::quadratic: return multipliers_of<T, Roots::quadratic>(q, begin, end, scratch);
        case Roots::two_falling: return multipliers_of<T, Roots::two_falling>(q, begin, end, scratch);
        case Roots::any: return multipliers_of<T, Roots::any>(q, begin, end, scratch);
    }
}

}  // namespace drnmf::DRNMF_ISA_NAME
