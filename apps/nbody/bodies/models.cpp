// SPDX-License-Identifier: Apache-2.0
#include "apps/nbody/bodies/models.hpp"

#include "apps/nbody/bodies/random.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include <tern/base/error.hpp>

namespace nbody {
namespace {

constexpr double pi = std::numbers::pi;

/// Where a galaxy is, how it moves and how its disc lies.
struct frame {
  double at[3] = {0, 0, 0}, velocity[3] = {0, 0, 0};
  double inclination = 0, node = 0; ///< radians
  void place(double (&x)[3], double (&v)[3]) const {
    turn(x);
    turn(v);
    for (int d = 0; d < 3; ++d) {
      x[d] += at[d];
      v[d] += velocity[d];
    }
  }

private:
  void turn(double (&u)[3]) const {
    const double ci = std::cos(inclination), si = std::sin(inclination), cn = std::cos(node), sn = std::sin(node);
    const double y = ci * u[1] - si * u[2], z = si * u[1] + ci * u[2];
    const double x = cn * u[0] - sn * y;
    u[1] = sn * u[0] + cn * y;
    u[0] = x;
    u[2] = z;
  }
};

// Mass within a radius: of a Plummer sphere, of an exponential disc.
double plummer_mass(double mass, double scale, double r) {
  const double u = r / scale;
  return mass * u * u * u / std::pow(1 + u * u, 1.5);
}
double disc_mass(double mass, double scale, double r) {
  const double u = r / scale;
  return mass * (1 - (1 + u) * std::exp(-u));
}

/// A Plummer sphere in equilibrium with itself; with `outer` mass (a disc of scale length `length`)
/// velocities are raised as the circular ones are.
void add_plummer(bodies& to, std::size_t n, double mass, double scale, std::uint8_t of, const frame& where,
                 random_numbers& random, double disc = 0, double length = 1) {
  for (std::size_t i = 0; i < n; ++i) {
    double r = 0;
    do r = scale / std::sqrt(std::pow(random.uniform(), -2.0 / 3) - 1);
    while (r > 10 * scale);
    double q = 0;
    do q = random.uniform();
    while (0.1 * random.uniform() > q * q * std::pow(1 - q * q, 3.5));
    const double escape = std::sqrt(2 * mass / std::sqrt(r * r + scale * scale));
    const double inner = plummer_mass(mass, scale, r);
    const double more = std::sqrt((inner + disc_mass(disc, length, r)) / inner);
    double x[3], v[3];
    random.direction(r, x);
    random.direction(q * escape * more, v);
    where.place(x, v);
    to.push(static_cast<std::uint32_t>(to.size()), of, mass / static_cast<double>(n), x, v);
  }
}

/// An exponential disc in a Plummer halo: what its stars' motions need.
class disc_galaxy {
public:
  double disc = 0.1, length = 0.2, halo = 0.9, scale = 0.4; ///< masses, and lengths of their profiles
  double toomre = 1.3;                                      ///< stability: above 1 no clumps grow

  double circular2(double r) const { return (plummer_mass(halo, scale, r) + disc_mass(disc, length, r)) / r; }
  /// Deviations of velocities, and the mean one around (Hernquist 1993).
  struct motion {
    double radial, around, mean;
  };
  motion at(double r) const {
    const double turn2 = circular2(r) / (r * r), step = 1e-4 * r, far = r + step, near = r - step;
    const double slope = (circular2(far) / (far * far) - circular2(near) / (near * near)) / (2 * step);
    const double epicycle2 = std::max(4 * turn2 + r * slope, turn2);
    const double surface = disc / (2 * pi * length * length) * std::exp(-r / length);
    const double most = 0.6 * std::sqrt(circular2(r));
    const double radial = std::min(toomre * 3.36 * surface / std::sqrt(epicycle2), most);
    const double ratio2 = epicycle2 / (4 * turn2); // of the deviations' squares
    const double mean2 = circular2(r) + radial * radial * (1 - ratio2 - 2 * r / length);
    return {radial, radial * std::sqrt(ratio2), std::sqrt(std::max(mean2, 0.0))};
  }
};

/// Its disc.
void add_disc(bodies& to, std::size_t n, const disc_galaxy& of, std::uint8_t label, const frame& where,
              random_numbers& random) {
  const double height = 0.1 * of.length;
  for (std::size_t i = 0; i < n; ++i) {
    double r = 0;
    do r = -of.length * std::log(random.uniform() * random.uniform()); // density r exp(-r / length)
    while (r > 6 * of.length);
    const double phi = random.uniform(0, 2 * pi);
    const auto [sigma, sigma_around, mean] = of.at(r);
    const double radial = sigma * random.normal(), around = mean + sigma_around * random.normal();
    double x[3] = {r * std::cos(phi), r * std::sin(phi), height * random.normal()};
    double v[3] = {radial * std::cos(phi) - around * std::sin(phi), radial * std::sin(phi) + around * std::cos(phi),
                   0.5 * sigma * random.normal()};
    where.place(x, v);
    to.push(static_cast<std::uint32_t>(to.size()), label, of.disc / static_cast<double>(n), x, v);
  }
}

/// Two centres on a parabola about each other: `apart`, and `closest` when they pass.
void parabola(double masses, double apart, double closest, frame& a, frame& b) {
  const double p = 2 * closest, cosine = p / apart - 1, sine = -std::sqrt(1 - cosine * cosine); // before they pass
  const double speed = std::sqrt(masses / p);
  const double x[3] = {apart * cosine, apart * sine, 0}, v[3] = {-speed * sine, speed * (1 + cosine), 0};
  for (int d = 0; d < 3; ++d) {
    a.at[d] = -x[d] / 2;
    a.velocity[d] = -v[d] / 2;
    b.at[d] = x[d] / 2;
    b.velocity[d] = v[d] / 2;
  }
}

initial collision(std::size_t n, random_numbers& random) {
  const disc_galaxy galaxy;
  frame one, other;
  parabola(2 * (galaxy.disc + galaxy.halo), 3.0, 0.4, one, other);
  one.inclination = -0.2; // both turn much as they pass: long tails
  other.inclination = 1.0;
  other.node = 0.6;
  initial result;
  result.all.reserve(n);
  const auto add = [&](std::size_t count, const frame& where, std::uint8_t stars, std::uint8_t dark) {
    const std::size_t in_disc = (count + 1) / 2;
    add_disc(result.all, in_disc, galaxy, stars, where, random);
    add_plummer(result.all, count - in_disc, galaxy.halo, galaxy.scale, dark, where, random, galaxy.disc,
                galaxy.length);
  };
  add(n / 2, one, first_disc, first_halo);
  add(n - n / 2, other, second_disc, second_halo);
  result.softening = 0.02;
  result.step = 0.01;
  return result;
}

initial spheres(std::size_t n, random_numbers& random) {
  frame one, other;
  parabola(2, 4.0, 0.5, one, other);
  initial result;
  result.all.reserve(n);
  add_plummer(result.all, n / 2, 1, 0.4, first_disc, one, random);
  add_plummer(result.all, n - n / 2, 1, 0.4, second_disc, other, random);
  result.softening = 0.02;
  result.step = 0.01;
  return result;
}

// A cluster, and as many stars in a thin stream: what equal numbers of bodies cost differs much.
initial stream(std::size_t n, random_numbers& random) {
  constexpr double radius = 10, width = 0.02, cluster = 1, in_stream = 0.05;
  initial result;
  result.all.reserve(n);
  add_plummer(result.all, n - n / 2, cluster, 0.5, first_disc, {}, random);
  const double speed = std::sqrt(cluster / radius);
  for (std::size_t i = 0; i < n / 2; ++i) {
    const double phi = random.uniform(-pi / 3, pi / 3), r = radius + width * random.normal();
    result.all.push(static_cast<std::uint32_t>(result.all.size()), second_disc, in_stream / static_cast<double>(n / 2),
                    {r * std::cos(phi), r * std::sin(phi), width * random.normal()},
                    {-speed * std::sin(phi), speed * std::cos(phi), 0});
  }
  result.softening = 0.02;
  return result;
}

initial two() {
  constexpr double e = 0.5; // masses 1/2, semi-major axis 1, period 2 pi; begins where they are farthest
  const double x = (1 + e) / 2, v = std::sqrt((1 - e) / (1 + e)) / 2;
  initial result;
  result.all.push(0, first_disc, 0.5, {x, 0, 0}, {0, v, 0});
  result.all.push(1, second_disc, 0.5, {-x, 0, 0}, {0, -v, 0});
  result.step = 2 * pi / 400;
  return result;
}

void centre(bodies& all) {
  double mass = 0, sum[6] = {};
  std::vector<double>* const parts[6] = {&all.x, &all.y, &all.z, &all.vx, &all.vy, &all.vz};
  for (std::size_t i = 0; i < all.size(); ++i) {
    mass += all.mass[i];
    for (int d = 0; d < 6; ++d) sum[d] += all.mass[i] * (*parts[d])[i];
  }
  for (int d = 0; d < 6; ++d)
    for (double& value : *parts[d]) value -= sum[d] / mass;
}

} // namespace

const char* const model_names = "collision|spheres|stream|plummer|cube|two";

initial make(const model& of) {
  constexpr std::size_t most = std::size_t{1} << 31;
  if (of.bodies < 1 || of.bodies > most)
    throw tern::error(tern::errc::invalid_argument,
                      "--n is " + std::to_string(of.bodies) + ": a run has 1 to " + std::to_string(most) + " bodies",
                      "change --n");
  random_numbers random(of.seed);
  initial result;
  if (of.name == "collision") {
    result = collision(of.bodies, random);
  } else if (of.name == "spheres") {
    result = spheres(of.bodies, random);
  } else if (of.name == "stream") {
    result = stream(of.bodies, random);
  } else if (of.name == "plummer") {
    add_plummer(result.all, of.bodies, 1, 3 * pi / 16, first_disc, {}, random); // standard units: energy -1/4
    result.softening = 0.02;
  } else if (of.name == "cube") {
    for (std::size_t i = 0; i < of.bodies; ++i)
      result.all.push(static_cast<std::uint32_t>(i), first_disc, 1.0 / static_cast<double>(of.bodies),
                      {random.uniform(-0.5, 0.5), random.uniform(-0.5, 0.5), random.uniform(-0.5, 0.5)}, {0, 0, 0});
    result.softening = 0.02;
    result.step = 0.005;
  } else if (of.name == "two") {
    return two();
  } else {
    throw tern::error(tern::errc::invalid_argument, "there is no model '" + of.name + "'",
                      std::string("use one of ") + model_names);
  }
  centre(result.all);
  return result;
}

} // namespace nbody
