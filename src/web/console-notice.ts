/** What the agent says beside the guest's bytes on `session.virt-handler.io` (docs/console-protocol.md), as its clients read it. */
export type ConsoleNotice =
  | {
      readonly kind: 'attached';
      readonly role: ConsoleRole;
      /** Of the connection to the guest; another one after it was opened anew. */
      readonly line: string;
      /** Guest bytes of this line that came before the next one. */
      readonly offset: number;
      /** Bytes that follow and were there before. */
      readonly replayed: number;
      /** Bytes between the offset that was asked for and the first one that follows. */
      readonly lost: number;
    }
  | { readonly kind: 'role'; readonly role: ConsoleRole; readonly reason: string }
  | { readonly kind: 'viewers'; readonly count: number };

export type ConsoleRole = 'writer' | 'viewer';

/** Undefined for what is no notice of a kind known here: an agent may learn new ones. */
export function parseNotice(text: string): ConsoleNotice | undefined {
  const fields = parseObject(text);
  const role: ConsoleRole = fields.role === 'writer' ? 'writer' : 'viewer';
  switch (fields.kind) {
    case 'attached':
      return {
        kind: 'attached',
        role,
        line: typeof fields.line === 'string' ? fields.line : '',
        offset: count(fields.offset),
        replayed: count(fields.replayed),
        lost: count(fields.lost),
      };
    case 'role':
      return { kind: 'role', role, reason: typeof fields.reason === 'string' ? fields.reason : '' };
    case 'viewers':
      return { kind: 'viewers', count: count(fields.count) };
    default:
      return undefined;
  }
}

function parseObject(text: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? { ...value } : {};
  } catch {
    return {};
  }
}

function count(value: unknown): number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : 0;
}
