// SPDX-License-Identifier: Apache-2.0
//
// Requests to a prefix cache over a fake runtime, without a batcher.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <string_view>
#include <utility>

#include "kv/prefix_cache.h"
#include "support/fake_runtime.h"
#include "support/must.h"

namespace incipit::test {

// `first`, then ones.
inline TokenVector run_of(Token first, std::size_t count) {
  TokenVector tokens(count, 1);
  tokens[0] = first;
  return tokens;
}

// As a request does: match, compute the rest, commit.
inline KvLookup ask(kv::PrefixCache& cache, FakeRuntime& runtime, const TokenVector& tokens,
                    const kv::CommitOptions& options = {}, std::string_view tenant = "") {
  kv::PrefixLease lease =
      must(cache.acquire({.tenant = tenant, .tokens = tokens, .limit = tokens.size() - 1}));
  const TokenSpan rest = TokenSpan(tokens).subspan(lease.lookup.matched);
  EXPECT_TRUE(cache.make_room(rest.size()));
  const model::Step step{.sequence = lease.sequence.id(), .tokens = rest, .logits_rows = {}};
  must(runtime.evaluate({&step, 1}));
  cache.commit(tenant, tokens, std::move(lease.sequence), options);
  cache.check_invariants();
  return lease.lookup;
}

}  // namespace incipit::test
