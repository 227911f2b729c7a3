import type { AgentTarget, FindAgent } from './target.ts';

/** What an agent said to an attempt. */
export type Attempt<T> =
  | { readonly kind: 'done'; readonly value: T }
  /** It may be the wrong agent by now. `give`: this is the answer after all. */
  | { readonly kind: 'refused'; readonly give: () => T | Promise<T> };

/**
 * Tries at the agent that has the VMI, and after a refusal where the VMI has moved to meanwhile: in the moment in which a guest changes
 * nodes no agent has it. Nothing of a refusal is passed on before it is known that it counts.
 */
export async function whereItIs<T>(
  find: FindAgent,
  path: string,
  signal: AbortSignal,
  attempt: (target: AgentTarget) => Promise<Attempt<T>>,
): Promise<T> {
  let target = await find(path);
  for (;;) {
    signal.throwIfAborted();
    const said = await attempt(target);
    if (said.kind === 'done') return said.value;
    const next = await find(path, { by: target, signal }).catch(() => undefined);
    if (!next || (next.host === target.host && next.port === target.port)) return said.give();
    target = next;
  }
}
