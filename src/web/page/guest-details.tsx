import { useLayoutEffect, useState } from 'preact/hooks';
import { fileSize } from '../file-size.ts';
import type { VmRow } from '../rows.ts';
import { Card, type Fact, Facts, Table } from './elements.tsx';
import { hasGuest } from './row-model.ts';
import { type GuestFactsKind, guestFacts } from './server-calls.ts';

type Fields = Readonly<Record<string, unknown>>;

const kinds: readonly GuestFactsKind[] = ['guestosinfo', 'userlist', 'filesystemlist'];

/** What a guest's agent reports about system, users and file systems; asked once for each guest. */
export function GuestDetails({ row }: { readonly row: VmRow }) {
  const [answers, setAnswers] = useState<readonly unknown[]>([]);
  const { namespace, name } = row;
  const uid = uidToAsk(row);
  useLayoutEffect(() => {
    setAnswers([]);
    if (uid === undefined) return undefined;
    const ending = new AbortController();
    const asked = kinds.map((kind) => guestFacts({ namespace, name }, kind, ending.signal).catch(() => undefined));
    void Promise.all(asked).then((all) => !ending.signal.aborted && setAnswers(all));
    return () => ending.abort();
  }, [namespace, name, uid]);
  return <GuestCards answers={answers} />;
}

/** Of the guest whose agent can be asked. */
function uidToAsk(row: VmRow): string | undefined {
  const hasAgent = row.conditions.some(({ type, status }) => type === 'AgentConnected' && status === 'True');
  return hasGuest(row) && hasAgent ? row.vmi?.uid : undefined;
}

/** What the agent does not report is left out. */
export function GuestCards({ answers: [info, userList, fileSystemList] }: { readonly answers: readonly unknown[] }) {
  const facts = systemFacts(fieldsOf(info));
  const [users, fileSystems] = [itemsOf(userList), itemsOf(fileSystemList)];
  return (
    <>
      {facts.length > 0 && (
        <Card title="Inside the guest">
          <Facts facts={facts} />
        </Card>
      )}
      {users.length > 0 && (
        <Card title="Logged in">
          <ul>{users.map(userItem)}</ul>
        </Card>
      )}
      {fileSystems.length > 0 && (
        <Card title="File systems">
          <Table>{fileSystems.map(fileSystemRow)}</Table>
        </Card>
      )}
    </>
  );
}

function systemFacts({ hostname, timezone, os, guestAgentVersion }: Fields): readonly Fact[] {
  const { prettyName, kernelRelease, machine } = fieldsOf(os);
  const reported: Readonly<Record<string, unknown>> = {
    'Host name': hostname,
    System: prettyName,
    Kernel: [kernelRelease, machine].filter(Boolean).join(' '),
    'Time zone': timezone,
    'Guest agent': guestAgentVersion,
  };
  return Object.entries(reported).flatMap(([term, text]) => (typeof text === 'string' && text ? [{ term, text }] : []));
}

function userItem({ userName, domain }: Fields, index: number) {
  return <li key={index}>{[userName, domain].filter(Boolean).join(' @ ')}</li>;
}

function fileSystemRow({ mountPoint, usedBytes, totalBytes }: Fields, index: number) {
  const [used, total] = [Number(usedBytes) || 0, Number(totalBytes) || 0];
  return (
    <tr key={index}>
      <th scope="row">{String(mountPoint ?? '')}</th>
      <td>
        <meter min={0} max={total || 1} value={used} high={(total || 1) * 0.9} optimum={0} />
      </td>
      <td>
        {fileSize(used)} of {fileSize(total)}
      </td>
    </tr>
  );
}

function fieldsOf(value: unknown): Fields {
  return typeof value === 'object' && value !== null ? { ...value } : {};
}

function itemsOf(value: unknown): readonly Fields[] {
  const { items } = fieldsOf(value);
  return Array.isArray(items) ? items.map(fieldsOf) : [];
}
