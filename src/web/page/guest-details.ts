import { el } from './dom.ts';
import { card, factList } from './facts.ts';
import { guestFacts } from './server-calls.ts';
import { fileSize } from './words.ts';

type Fields = Readonly<Record<string, unknown>>;

/** What a guest's agent tells about users and file systems; what it does not tell is left out. */
export async function guestDetails(
  vm: { readonly namespace: string; readonly name: string },
  signal: AbortSignal,
): Promise<HTMLElement[]> {
  const [info, users, fileSystems] = await Promise.all(
    (['guestosinfo', 'userlist', 'filesystemlist'] as const).map((kind) =>
      guestFacts(vm, kind, signal).catch(() => undefined),
    ),
  );
  return [systemCard(fieldsOf(info)), usersCard(itemsOf(users)), fileSystemsCard(itemsOf(fileSystems))].filter(
    (card) => card !== undefined,
  );
}

function systemCard({ hostname, timezone, os, guestAgentVersion }: Fields): HTMLElement | undefined {
  const { prettyName, kernelRelease, machine } = fieldsOf(os);
  const told: Readonly<Record<string, unknown>> = {
    'Host name': hostname,
    System: prettyName,
    Kernel: [kernelRelease, machine].filter(Boolean).join(' '),
    'Time zone': timezone,
    'Guest agent': guestAgentVersion,
  };
  const facts = Object.entries(told).flatMap(([term, text]) =>
    typeof text === 'string' && text ? [{ term, text }] : [],
  );
  return facts.length === 0 ? undefined : card('Inside the guest', factList(facts));
}

function usersCard(users: readonly Fields[]): HTMLElement | undefined {
  if (users.length === 0) return undefined;
  const names = users.map(({ userName, domain }) => el('li', {}, [userName, domain].filter(Boolean).join(' @ ')));
  return card('Logged in', el('ul', {}, ...names));
}

function fileSystemsCard(fileSystems: readonly Fields[]): HTMLElement | undefined {
  if (fileSystems.length === 0) return undefined;
  const rows = fileSystems.map(({ mountPoint, usedBytes, totalBytes }) => {
    const [used, total] = [Number(usedBytes) || 0, Number(totalBytes) || 0];
    const meter = el('meter', { min: 0, max: total || 1, value: used, high: (total || 1) * 0.9, optimum: 0 });
    return el(
      'tr',
      {},
      el('th', { scope: 'row' }, String(mountPoint ?? '')),
      el('td', {}, meter),
      el('td', {}, `${fileSize(used)} of ${fileSize(total)}`),
    );
  });
  const table = el('table', {}, el('tbody', {}, ...rows));
  return card('File systems', el('div', { class: 'scrolls' }, table));
}

function fieldsOf(value: unknown): Fields {
  return typeof value === 'object' && value !== null ? { ...value } : {};
}

function itemsOf(value: unknown): readonly Fields[] {
  const { items } = fieldsOf(value);
  return Array.isArray(items) ? items.map(fieldsOf) : [];
}
