import { randomUUID } from 'node:crypto';
import type { AgentState } from '../../../api/index.ts';
import type { Clock, Component, Logger } from '../../../base/index.ts';
import { defaultStreamOptions, StreamServer } from '../../../console/index.ts';
import type { KubeClient } from '../../../kube/index.ts';
import type { LauncherClients } from '../../../launcher-client/index.ts';
import { type FollowedTls, SecureServer, type SecureServerState, TlsConfig } from '../../../serving/index.ts';
import { clientCommonName, FollowedAuthorities, KeyPairFiles, type PeerRule } from '../../../tls/index.ts';
import type { ClusterSettings } from '../../node/ports.ts';
import type { AgentOptions } from '../../options.ts';
import type { KubeVmis } from '../../vmi/adapters/index.ts';
import type { VmiEventRecorder } from '../../vmi/ports.ts';
import { RestApi } from '../rest/index.ts';
import { CaBundle } from './ca-bundle.ts';
import { departureOf } from './departure.ts';
import { EndedStreams } from './ended-streams.ts';
import { launcherActions } from './launcher-actions.ts';

export interface ConsoleDeps {
  readonly client: KubeClient;
  readonly vmis: KubeVmis;
  readonly settings: Pick<ClusterSettings, 'select'>;
  readonly clients: LauncherClients;
  readonly events: Pick<VmiEventRecorder, 'record'>;
  /** Streams of guests are open from now on, or no longer. */
  readonly onStreams: (areOpen: boolean) => void;
  readonly clock: Clock;
  readonly log: Logger;
}

/** What makes the consoles and lifecycle calls reachable. */
export interface Consoles {
  readonly api: RestApi;
  readonly bundle: CaBundle;
  /** What the agent's other servers follow, too. */
  readonly tls: FollowedTls;
  /** In the order in which they start: once the KubeVirt object was asked for, and before the VMIs are listed. */
  readonly components: readonly Component[];
  /** Cheap: of the server alone. */
  serving(): SecureServerState;
  openSessions(): number;
  /** For people: with every session. */
  state(): AgentState['consoles'];
}

const sessionLimit = 100;

/** Nothing is started yet. */
export function makeConsoles(options: AgentOptions, deps: ConsoleDeps): Consoles {
  const { clock, log } = deps;
  const { console } = options;
  const { vmis, events } = deps;
  const actions = launcherActions(deps.clients);
  const movedTo = ({ shown, uid }: { readonly shown: string; readonly uid: string }) => {
    const vmi = vmis.get(shown);
    return vmi?.metadata.uid === uid ? departureOf(vmi, options.nodeName) : undefined;
  };
  const streams = new StreamServer(defaultStreamOptions, {
    ...{ clock, log, newId: randomUUID, onUse: deps.onStreams },
    movedTo,
  });
  const api = new RestApi({ nodeName: options.nodeName }, { vmis, actions, events, streams, clock, log });
  const bundle = new CaBundle(console.caConfigMap, { client: deps.client, log });
  const keyPair = new KeyPairFiles(console.keyPair, { clock, log });
  const authorities = new FollowedAuthorities(bundle, { log });
  const settings = new TlsConfig((use) => deps.settings.select(({ node }) => node.tlsConfiguration, use));
  const server = new SecureServer(
    { address: console.address, port: console.port, clients: clientRule(console.externallyManaged) },
    {
      api,
      endStreams: async () => {
        await Promise.all([api.stop(), streams.close()]);
      },
      keyPair,
      authorities,
      settings,
      clock,
      log,
    },
  );
  const following: Component = {
    name: 'TLS settings',
    start: async () => settings.begin(),
    stop: async () => {
      settings.stop();
      authorities.stop();
    },
  };
  return {
    api,
    bundle,
    tls: { keyPair, authorities, settings },
    components: [bundle, keyPair, following, server, new EndedStreams(options.nodeName, { vmis, streams })],
    serving: () => server.state,
    openSessions: () => streams.openSessions,
    state: () => {
      const { listens, problem, ...rest } = server.state;
      const sessions = streams.sessions();
      return {
        ...(listens !== undefined && { listens }),
        ...(problem !== undefined && { problem }),
        ...(keyPair.problem !== undefined && { keyPairProblem: keyPair.problem }),
        ...rest,
        ...api.state,
        openSessions: streams.openSessions,
        sessions: sessions
          .slice(0, sessionLimit)
          .map(({ shown, uid: _uid, ...session }) => ({ vmi: shown, ...session })),
      };
    },
  };
}

function clientRule(isExternallyManaged: boolean): PeerRule {
  if (isExternallyManaged) return { commonNames: 'any', allowIntermediates: true };
  return { commonNames: [clientCommonName], allowIntermediates: false };
}
