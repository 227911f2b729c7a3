import { randomUUID } from 'node:crypto';

export interface StoredCopies {
  /** Of the etcd below an API server. */
  readonly etcdUrl: string;
  /** As in `/registry/pods`; before namespace and name. */
  readonly prefix: string;
  readonly namespace: string;
  /** Of the object that is there. */
  readonly name: string;
  readonly uid: string;
  /** As long as its own, each: what is stored is protobuf or JSON, in which only bytes are exchanged. */
  readonly names: readonly string[];
}

interface Range {
  readonly kvs?: readonly { readonly value: string }[];
}

/** etcd takes no more in one transaction. */
const atOnce = 100;

/**
 * Copies of an object, put into etcd itself: an API server makes some dozen a second here, and this some thousands. The API server learns of them as of
 * another API server's.
 */
export async function storeCopies({ etcdUrl, prefix, namespace, name, uid, names }: StoredCopies): Promise<void> {
  const odd = names.find((each) => each.length !== name.length);
  if (odd !== undefined) throw new Error(`${odd} is not as long as ${name}`);
  const keyOf = (of: string) => base64(`${prefix}/${namespace}/${of}`);
  const { kvs = [] } = await ask<Range>(etcdUrl, 'range', { key: keyOf(name) });
  const [stored] = kvs;
  if (!stored) throw new Error(`etcd has no ${prefix}/${namespace}/${name}`);
  const text = Buffer.from(stored.value, 'base64').toString('latin1');
  const copyOf = (of: string) => base64(text.replaceAll(name, of).replaceAll(uid, randomUUID()));
  for (let at = 0; at < names.length; at += atOnce) {
    const success = names.slice(at, at + atOnce).map((of) => ({ requestPut: { key: keyOf(of), value: copyOf(of) } }));
    await ask(etcdUrl, 'txn', { success });
  }
}

function base64(latin1: string): string {
  return Buffer.from(latin1, 'latin1').toString('base64');
}

/** etcd's gateway of its gRPC calls. */
async function ask<T>(etcdUrl: string, call: 'range' | 'txn', body: object): Promise<T> {
  const answer = await fetch(`${etcdUrl}/v3/kv/${call}`, { method: 'POST', body: JSON.stringify(body) });
  if (!answer.ok) throw new Error(`etcd, ${call}: ${answer.status} ${await answer.text()}`);
  return (await answer.json()) as T;
}
