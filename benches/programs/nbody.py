"""Floating point and list access: the planets of the outer solar system, 4,000 steps."""

PI = 3.141592653589793
SOLAR_MASS = 4 * PI * PI
DAYS_PER_YEAR = 365.24

# Position, velocity (per day) and mass (in suns) of the sun and four planets.
BODIES = [
    [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0],
    [
        4.84143144246472090e00,
        -1.16032004402742839e00,
        -1.03622044471123109e-01,
        1.66007664274403694e-03,
        7.69901118419740425e-03,
        -6.90460016972063023e-05,
        9.54791938424326609e-04,
    ],
    [
        8.34336671824457987e00,
        4.12479856412430479e00,
        -4.03523417114321381e-01,
        -2.76742510726411899e-03,
        4.99852801234917238e-03,
        2.30417297573763929e-05,
        2.85885980666130812e-04,
    ],
    [
        1.28943695621391310e01,
        -1.51111514016986312e01,
        -2.23307578892655734e-01,
        2.96460137564761618e-03,
        2.37847173959480950e-03,
        -2.96589568540237556e-05,
        4.36624404335156298e-05,
    ],
    [
        1.53796971148509165e01,
        -2.59193146099879641e01,
        1.79258772950371181e-01,
        2.68067772490389322e-03,
        1.62824170038242295e-03,
        -9.51592254519715870e-05,
        5.15138902046611451e-05,
    ],
]


def solar_system():
    bodies = []
    for x, y, z, vx, vy, vz, mass in BODIES:
        year = DAYS_PER_YEAR
        bodies.append([x, y, z, vx * year, vy * year, vz * year, mass * SOLAR_MASS])
    return bodies


def advance(bodies, pairs, steps, dt):
    for _ in range(steps):
        for first, second in pairs:
            dx = first[0] - second[0]
            dy = first[1] - second[1]
            dz = first[2] - second[2]
            magnitude = dt * (dx * dx + dy * dy + dz * dz) ** -1.5
            pull = second[6] * magnitude
            push = first[6] * magnitude
            first[3] -= dx * pull
            first[4] -= dy * pull
            first[5] -= dz * pull
            second[3] += dx * push
            second[4] += dy * push
            second[5] += dz * push
        for body in bodies:
            body[0] += dt * body[3]
            body[1] += dt * body[4]
            body[2] += dt * body[5]


def energy(bodies, pairs):
    total = 0.0
    for body in bodies:
        total += 0.5 * body[6] * (body[3] ** 2 + body[4] ** 2 + body[5] ** 2)
    for first, second in pairs:
        dx = first[0] - second[0]
        dy = first[1] - second[1]
        dz = first[2] - second[2]
        total -= first[6] * second[6] / (dx * dx + dy * dy + dz * dz) ** 0.5
    return total


def main():
    bodies = solar_system()
    pairs = []
    for i in range(len(bodies)):
        for j in range(i + 1, len(bodies)):
            pairs.append((bodies[i], bodies[j]))
    advance(bodies, pairs, 4000, 0.01)
    # Rounded: the last bits of `pow` differ between C libraries.
    return round(energy(bodies, pairs) * 1000000000)
