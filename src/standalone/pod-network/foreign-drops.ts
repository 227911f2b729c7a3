import { isRecord, listOf, memberAt } from '../../base/index.ts';

interface Chain {
  readonly key: string;
  /** `forward` or `input`. */
  readonly hook: string;
  readonly drops: boolean;
}

/** What of a rule does not choose packets: it holds for all that come so far. */
const choosesNothing = new Set(['counter', 'limit', 'log', 'comment']);

/**
 * Chains of others that drop or reject what they do not know, in words: by their policy, or by a rule at their end that has no condition, as firewalld and
 * `iptables -A FORWARD -j REJECT` have it. A rule before it that names the bridge is taken for one that lets it pass. `ruleset` is nft's JSON.
 */
export function foreignDrops(ruleset: unknown, bridge: string): string[] {
  const items = listOf(memberAt(ruleset, 'nftables'));
  return items.flatMap((item) => {
    const chain = chainOf(memberAt(item, 'chain'));
    if (!chain) return [];
    const rules = items.map((each) => memberAt(each, 'rule')).filter((rule) => keyOf(rule, 'chain') === chain.key);
    const verdict = rules.findIndex(isRefusal);
    const before = verdict < 0 ? rules : rules.slice(0, verdict);
    const refuses = verdict >= 0 && !before.some((rule) => JSON.stringify(rule).includes(bridge));
    if (!refuses && !chain.drops) return [];
    const what = chain.hook === 'forward' ? 'guests may not reach outside' : 'guests may get no DNS';
    return [`a firewall drops what it does not know (chain ${chain.key}): ${what} until it lets ${bridge} pass`];
  });
}

function chainOf(chain: unknown): Chain | undefined {
  const hook = memberAt(chain, 'hook');
  if (hook !== 'forward' && hook !== 'input') return undefined;
  return { key: keyOf(chain, 'name'), hook, drops: memberAt(chain, 'policy') === 'drop' };
}

function keyOf(object: unknown, name: string): string {
  return ['family', 'table', name].map((field) => String(memberAt(object, field) ?? '')).join(' ');
}

function isRefusal(rule: unknown): boolean {
  const steps = listOf(memberAt(rule, 'expr')).filter(
    (step) => isRecord(step) && !Object.keys(step).every((key) => choosesNothing.has(key)),
  );
  const [verdict, ...others] = steps;
  if (!isRecord(verdict) || others.length > 0) return false;
  // iptables-nft's own targets are shown by their names alone.
  return (
    'drop' in verdict || 'reject' in verdict || ['DROP', 'REJECT'].includes(String(memberAt(verdict, 'xt', 'name')))
  );
}
