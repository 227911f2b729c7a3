import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { Pod, Service } from '../../../src/api/index.ts';
import { labelChange } from '../../../src/standalone/services/endpoint-slices.ts';
import type { ServiceFacts } from '../../../src/standalone/services/facts.ts';
import { planServices } from '../../../src/standalone/services/plan.ts';

const range = { address: '10.77.0.0', prefix: 24 };

function service(name: string, spec: Service['spec'] = {}, uid = `uid-${name}`): Service {
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name, namespace: 'default', uid, creationTimestamp: '2026-01-01T00:00:00Z' },
    spec: { type: 'ClusterIP', selector: { app: 'web' }, ports: [{ port: 80, targetPort: 8080 }], ...spec },
  };
}

function pod(
  name: string,
  podIP: string,
  changes: Partial<Pod['status']> = {},
  labels: Record<string, string> = { app: 'web' },
): Pod {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace: 'default', uid: `uid-${name}`, labels },
    spec: { nodeName: 'one', containers: [{ name: 'compute', ports: [{ name: 'http', containerPort: 8081 }] }] },
    status: {
      phase: 'Running',
      podIP,
      hostIP: '127.0.0.1',
      conditions: [{ type: 'Ready', status: 'True' }],
      ...changes,
    } as NonNullable<Pod['status']>,
  };
}

const plan = (services: readonly Service[], pods: readonly Pod[] = [], changes: Partial<ServiceFacts> = {}) =>
  planServices({ services, pods, range, isPortTaken: () => false, ...changes });

describe('without a pod network', () => {
  const withoutNetwork = { range: undefined } as const;
  const launcher = (name: string, changes: Partial<Pod['status']> = {}) =>
    pod(name, '127.0.0.1', changes, {
      app: 'web',
      'kubevirt.io': 'virt-launcher',
      'kubevirt.io/created-by': `vmi-${name}`,
    });
  const reach = (name: string) => ({ kind: 'launcher', nodeName: 'one', podUid: `uid-${name}`, vmiUid: `vmi-${name}` });
  const nodePort = service('web', { type: 'NodePort', ports: [{ port: 80, targetPort: 'http', nodePort: 30_080 }] });

  test('node ports of TCP lead to launchers of guests that are ready, by the number that a name has', () => {
    const notReady = { conditions: [{ type: 'Ready', status: 'False' }] } as never;
    const pods = [launcher('a'), launcher('b', notReady), pod('no-launcher', '127.0.0.1')];
    const { relays, ports, names, services } = plan([nodePort], pods, withoutNetwork);
    assert.deepEqual(relays, [{ port: 30_080, targets: [{ reach: reach('a'), port: 8081 }] }]);
    assert.deepEqual([ports, names, services[0]?.endpoints, services[0]?.change], [[], [], undefined, undefined]);
    assert.match(services[0]?.problems[0]?.message ?? '', /^without a pod network only its node ports of TCP answer/);
  });

  test('a node port is chosen, UDP has no relay, and one that another program has is told', () => {
    const ports = [{ port: 80 }, { port: 53, protocol: 'UDP' }];
    const { relays, services } = plan([service('web', { type: 'NodePort', ports })], [], withoutNetwork);
    assert.equal(relays.length, 1);
    assert.ok((relays[0]?.port ?? 0) >= 30_000);
    assert.deepEqual(Object.keys(services[0]?.change ?? {}), ['ports']);
    const taken = plan([nodePort], [launcher('a')], { ...withoutNetwork, isPortTaken: () => true });
    assert.deepEqual(taken.relays, []);
    assert.deepEqual(
      taken.services[0]?.problems.map(({ reason }) => reason),
      ['NoPodNetwork', 'NodePortUnavailable'],
    );
  });

  test('other types are told what would be published', () => {
    const { relays, services } = plan([service('web')], [launcher('a')], withoutNetwork);
    assert.deepEqual(relays, []);
    assert.match(services[0]?.problems[0]?.message ?? '', /nothing of it is published; with type NodePort/);
  });
});

test('labels that a Service lost go from its slices, those that it got come', () => {
  assert.equal(labelChange({ a: '1' }, { a: '1' }), undefined);
  assert.equal(labelChange(undefined, {}), undefined);
  assert.deepEqual(labelChange({ a: '1', b: '2', c: '3' }, { a: '1', b: '4', d: '5' }), { c: null, b: '4', d: '5' });
});

describe('EndpointSlices of a Service', () => {
  const slicesOf = (spec: Service['spec'], pods: readonly Pod[]) =>
    plan([service('web', spec)], pods).services[0]?.endpoints?.slices ?? [];
  const notReady = { conditions: [{ type: 'Ready', status: 'False' }] } as never;

  test('tell of each pod whether it is ready, and are found by the name of the Service', () => {
    const [slice, ...more] = slicesOf({}, [pod('a', '10.1.0.2'), pod('b', '10.1.0.3', notReady)]);
    assert.deepEqual(more, []);
    assert.match(slice?.metadata.name ?? '', /^web-[0-9a-f]{5}$/);
    assert.equal(slice?.metadata.labels?.['kubernetes.io/service-name'], 'web');
    assert.deepEqual(slice?.ports, [{ name: '', port: 8080, protocol: 'TCP' }]);
    const conditions = (is: boolean) => ({ ready: is, serving: is, terminating: false });
    const targetRef = (name: string) => ({ kind: 'Pod', name, namespace: 'default', uid: `uid-${name}` });
    assert.deepEqual(slice?.endpoints, [
      { addresses: ['10.1.0.2'], conditions: conditions(true), nodeName: 'one', targetRef: targetRef('a') },
      { addresses: ['10.1.0.3'], conditions: conditions(false), nodeName: 'one', targetRef: targetRef('b') },
    ]);
  });

  test('of a Service that wants pods which are not ready say ready, and that they do not serve', () => {
    const [slice] = slicesOf({ publishNotReadyAddresses: true }, [pod('b', '10.1.0.3', notReady)]);
    assert.deepEqual(slice?.endpoints[0]?.conditions, { ready: true, serving: false, terminating: false });
  });

  test('are one without endpoints where there is no pod, and several where there are hundreds; their names stay', () => {
    assert.deepEqual(
      slicesOf({}, []).map(({ endpoints }) => endpoints),
      [[]],
    );
    const pods = Array.from({ length: 250 }, (_, at) => pod(`p${at}`, `10.1.${at >> 7}.${(at & 127) + 2}`));
    const many = slicesOf({}, pods);
    assert.deepEqual(
      many.map(({ endpoints }) => endpoints.length),
      [100, 100, 50],
    );
    const names = many.map(({ metadata }) => metadata.name);
    assert.equal(new Set(names).size, 3);
    assert.deepEqual(
      slicesOf({}, pods.slice(1)).map(({ metadata }) => metadata.name),
      names,
    );
  });
});

describe('Services of the standalone node', () => {
  test('have an address, the pods that they select behind it, and a name', () => {
    const pods = [
      pod('a', '10.1.0.2'),
      pod('not-ready', '10.1.0.3', { conditions: [{ type: 'Ready', status: 'False' }] } as never),
      pod('ended', '10.1.0.4', { phase: 'Succeeded' }),
      pod('nodes', '127.0.0.1'),
      pod('other', '10.1.0.5', {}, { app: 'db' }),
    ];
    const { services, ports, names } = plan([service('web')], pods);
    const [port] = ports;
    assert.match(port?.address ?? '', /^10\.77\.0\.\d+$/);
    assert.deepEqual(port?.endpoints, [{ address: '10.1.0.2', port: 8080 }]);
    assert.deepEqual(names, [{ name: 'web.default.svc', addresses: [port?.address] }]);
    assert.deepEqual(services[0]?.problems, []);
    const [subset] = services[0]?.endpoints?.object.subsets ?? [];
    assert.deepEqual(
      [subset?.addresses?.map(({ ip }) => ip), subset?.notReadyAddresses?.map(({ ip }) => ip), subset?.ports],
      [['10.1.0.2'], ['10.1.0.3'], [{ port: 8080, protocol: 'TCP' }]],
    );
  });

  test('keep what they have, and write nothing then', () => {
    const kept = service('web', { clusterIP: '10.77.0.9', type: 'NodePort', ports: [{ port: 80, nodePort: 30_080 }] });
    const { services, ports } = plan([kept]);
    assert.equal(services[0]?.change, undefined);
    assert.deepEqual([ports[0]?.address, ports[0]?.nodePort], ['10.77.0.9', 30_080]);
  });

  test('of another range get another address', () => {
    const { services } = plan([service('web', { clusterIP: '10.96.0.1' })]);
    assert.match(JSON.stringify(services[0]?.change), /"clusterIP":"10\.77\.0\.\d+"/);
  });

  test('ports of the pods may be named', () => {
    const { ports } = plan([service('web', { ports: [{ port: 80, targetPort: 'http' }] })], [pod('a', '10.1.0.2')]);
    assert.deepEqual(ports[0]?.endpoints, [{ address: '10.1.0.2', port: 8081 }]);
  });

  test('without an address of their own are names of the pods', () => {
    const { ports, names } = plan(
      [service('web', { clusterIP: 'None' })],
      [pod('a', '10.1.0.2'), pod('b', '10.1.0.3')],
    );
    assert.deepEqual(ports, []);
    assert.deepEqual(names, [{ name: 'web.default.svc', addresses: ['10.1.0.2', '10.1.0.3'] }]);
  });

  test('a node port that a program of the machine has is not published, and told', () => {
    const asked = service('web', { type: 'NodePort', ports: [{ port: 80, nodePort: 30_080 }] });
    const { services, ports } = plan([asked], [], { isPortTaken: (port) => port === 30_080 });
    assert.equal(ports[0]?.nodePort, undefined);
    assert.match(services[0]?.problems[0]?.message ?? '', /node port 30080: a program of this machine listens there/);
  });

  test('of two that ask for one port the older one has it', () => {
    const [one, two] = ['one', 'two'].map((name) =>
      service(name, { type: 'NodePort', ports: [{ port: 80, nodePort: 30_080 }] }),
    );
    assert.ok(one && two);
    const { services, ports } = plan([two, one]);
    assert.deepEqual(
      ports.map(({ nodePort }) => nodePort),
      [30_080, undefined],
    );
    assert.match(services[1]?.problems[0]?.message ?? '', /Service default\/one has it/);
  });

  const refused: readonly [string, Service['spec'], RegExp, Partial<ServiceFacts>?][] = [
    ['ExternalName', { type: 'ExternalName', externalName: 'a.test' }, /no names for other machines/],
    ['no selector', { selector: {} }, /without selector has no endpoints/],
    ['IPv6', { ipFamilies: ['IPv6'] }, /IPv4 addresses only/],
    ['no pod network', {}, /without a pod network/, { range: undefined }],
    ['a node port out of range', { type: 'NodePort', ports: [{ port: 80, nodePort: 80 }] }, /from 30000 to 32767/],
    ['LoadBalancer', { type: 'LoadBalancer' }, /no load balancer/],
    ['sessionAffinity', { sessionAffinity: 'ClientIP' }, /sessionAffinity ClientIP does not hold/],
    ['externalIPs', { externalIPs: ['192.0.2.1'] }, /externalIPs do not hold/],
    ['a port that is none', { ports: [{ port: 70_000 }] }, /port 70000 of TCP is not published/],
    ['what is no list', { ports: 'x' } as never, /cannot be read: spec\.ports must be a list/],
    [
      'words in place of numbers',
      { ports: [{ port: '80; drop' }] } as never,
      /spec\.ports\[0\]\.port must be a number/,
    ],
    ['a selector that is none', { selector: { a: 1 } } as never, /spec\.selector\.a must be a string/],
    ['SCTP', { ports: [{ port: 80, protocol: 'SCTP' }] }, /of SCTP is not published/],
  ];
  for (const [what, spec, message, changes] of refused) {
    test(`${what}: told in words`, () => {
      const { services } = plan([service('web', spec)], [], changes);
      assert.match(services[0]?.problems.map((each) => each.message).join('\n') ?? '', message);
    });
  }

  test('nothing that a user writes gets into the rules but numbers of ports', () => {
    const evil = '1; } chain x { drop';
    const hostile = service('web', { ports: [{ port: 80, targetPort: evil, name: evil, protocol: 'TCP' }] });
    const target = pod('a', '10.1.0.2');
    target.spec.containers = [{ name: 'compute', ports: [{ name: evil, containerPort: evil }] }];
    assert.deepEqual(plan([hostile], [target, pod('b', evil)]).ports[0]?.endpoints, []);
  });

  test('never two with one address or one port of the machine, whatever they ask for', () => {
    const wish = fc.record({
      uid: fc.uuid(),
      type: fc.constantFrom('ClusterIP', 'NodePort', 'LoadBalancer'),
      clusterIP: fc.constantFrom(undefined, '', 'None', '10.77.0.0', '10.77.0.5', '10.77.0.255', '1.2.3.4', 'x'),
      nodePort: fc.constantFrom(undefined, 0, -1, 1.5, 30_000, 30_001, 65_536),
    });
    fc.assert(
      fc.property(fc.array(wish, { maxLength: 30 }), (wishes) => {
        const services = wishes.map(({ uid, type, clusterIP, nodePort }, at) =>
          service(
            `s${at}`,
            {
              type,
              ports: [{ port: 80, ...(nodePort !== undefined && { nodePort }) }],
              ...(clusterIP !== undefined && { clusterIP }),
            },
            uid,
          ),
        );
        const { ports } = plan(services);
        const addresses = ports.map(({ address }) => address);
        const nodePorts = ports.flatMap(({ nodePort }) => nodePort ?? []);
        assert.equal(new Set(addresses).size, addresses.length);
        assert.equal(new Set(nodePorts).size, nodePorts.length);
        for (const address of addresses) assert.match(address, /^10\.77\.0\.([1-9]|[1-9]\d|1\d\d|2[0-4]\d|25[0-4])$/);
        for (const port of nodePorts) assert.ok(port >= 30_000 && port <= 32_767);
      }),
    );
  });
});
