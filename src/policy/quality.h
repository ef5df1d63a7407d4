// SPDX-License-Identifier: Apache-2.0
//
// How good the labels of a file are, where the right ones are known, and two warnings that need
// no right ones: one label that wins whatever the text says, and labels that turn with the order
// in which the task lists them. Everything streams: memory grows with labels, not with rows.
// Confined to one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "incipit/label.h"

namespace incipit::policy {

// Expected calibration error: how far confidence and accuracy lie apart, in ten equal bins,
// weighted by rows.
class CalibrationError {
 public:
  void add(double confidence, bool is_right);
  [[nodiscard]] double value() const;

 private:
  struct Bin {
    std::uint64_t rows = 0;
    std::uint64_t right = 0;
    double confidence = 0;  // Sum over rows.
  };
  std::array<Bin, 10> bins_;
};

struct Quality {
  std::uint64_t rows = 0;      // With a known label; errors are among them.
  std::uint64_t unscored = 0;  // Errors: without a best label. They count as wrong.
  double accuracy = 0;         // Of the best labels, accepted or not.
  double macro_f1 = 0;         // Mean F1 of the labels that occur or were chosen.
  double coverage = 0;         // Share of rows that were accepted.
  double accepted_accuracy = 0;
  double ece = 0;
  std::vector<std::vector<std::uint64_t>> confusion;  // [right label][best label]
};

class QualityMeter {
 public:
  explicit QualityMeter(std::size_t labels);

  void add(std::size_t gold, const Label& label);
  [[nodiscard]] Quality quality() const;

 private:
  [[nodiscard]] double macro_f1() const;

  std::vector<std::vector<std::uint64_t>> confusion_;
  std::vector<std::uint64_t> unscored_;  // By right label.
  std::uint64_t rows_ = 0;
  std::uint64_t right_ = 0;
  std::uint64_t accepted_ = 0;
  std::uint64_t accepted_right_ = 0;
  CalibrationError error_;
};

// Counts winners; a label that wins nearly always among varied texts is the sign of a prior bias.
// Give it distinct texts only: repeats would look like one.
class WinnerCounts {
 public:
  struct Dominant {
    std::size_t label = 0;
    double share = 0;
  };

  explicit WinnerCounts(std::size_t labels) : counts_(labels) {}

  void add(const Label& label);
  [[nodiscard]] std::span<const std::uint64_t> counts() const { return counts_; }
  // The label that won more than nine of ten texts, if there are eight or more texts and two
  // labels to choose from.
  [[nodiscard]] std::optional<Dominant> dominant() const;

 private:
  std::vector<std::uint64_t> counts_;
};

// The order test: each text is labelled once for each order of the label list.
class OrderFlips {
 public:
  // `labels` holds the text's best label under each order, as indices into one common list.
  void add(std::span<const std::optional<std::size_t>> labels);

  [[nodiscard]] std::uint64_t texts() const { return texts_; }
  [[nodiscard]] std::uint64_t flipped() const { return flipped_; }  // Not the same in all orders.
  [[nodiscard]] double share() const;

 private:
  std::uint64_t texts_ = 0;
  std::uint64_t flipped_ = 0;
};

}  // namespace incipit::policy
