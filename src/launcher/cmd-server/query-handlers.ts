import type { Domain } from '../../api/index.ts';
import { type cmd, messageLimitBytes } from '../../wire/index.ts';
import { decodeVmi, type VmiIdentity } from '../domain/index.ts';
import { LauncherError } from '../errors.ts';
import type { DomainStats } from '../stats/index.ts';
import { attempt, ok, unary } from './respond.ts';
import { type VmStatsSources, vmStats } from './vm-stats.ts';

/** What the Cmd service reads. */
export interface Queries extends VmStatsSources {
  domain(): Promise<Domain | undefined>;
  stats(): Promise<DomainStats>;
  guestInfo(): object;
  users(): readonly object[];
  filesystems(): readonly object[];
  qemuVersion(): Promise<string>;
  /** As KubeVirt's API has them. */
  sevInfo(): Promise<object>;
  launchMeasurement(): Promise<object>;
  screenshot(): Promise<{ readonly mime: string; readonly data: Buffer }>;
}

interface Deps {
  readonly identity: VmiIdentity;
  readonly queries: Queries;
}

const noBytes = Buffer.alloc(0);
/** Room for the other fields of the message. */
const maxScreenshotBytes = messageLimitBytes - 1024;

export function queryHandlers(deps: Deps) {
  return { ...domainQueries(deps), ...guestQueries(deps), ...rareQueries(deps) };
}

function domainQueries({ queries }: Deps) {
  return {
    ping: unary<cmd.EmptyRequest, cmd.Response>(async () => ok),
    getDomain: unary<cmd.EmptyRequest, cmd.DomainResponse>(async () => {
      const { response, value } = await attempt(() => queries.domain());
      return { response, domain: value ? JSON.stringify(value) : '' };
    }),
    getDomainStats: unary<cmd.EmptyRequest, cmd.DomainStatsResponse>(async () => {
      const { response, value } = await attempt(() => queries.stats());
      return { response, domainStats: value ? JSON.stringify(value) : '' };
    }),
    getDomainDirtyRateStats: unary<cmd.EmptyRequest, cmd.DirtyRateStatsResponse>(async () => {
      const { response, value } = await attempt(() => queries.dirtyRate());
      return { response, dirtyRateMbs: value ?? 0n };
    }),
    getQemuVersion: unary<cmd.EmptyRequest, cmd.QemuVersionResponse>(async () => {
      const { response, value } = await attempt(() => queries.qemuVersion());
      return { response, version: value ?? '' };
    }),
  };
}

function guestQueries({ queries }: Deps) {
  return {
    getGuestInfo: unary<cmd.EmptyRequest, cmd.GuestInfoResponse>(async () => {
      return { response: ok, guestInfoResponse: JSON.stringify(queries.guestInfo()) };
    }),
    getUsers: unary<cmd.EmptyRequest, cmd.GuestUserListResponse>(async () => {
      return { response: ok, guestUserListResponse: JSON.stringify(queries.users()) };
    }),
    getFilesystems: unary<cmd.EmptyRequest, cmd.GuestFilesystemsResponse>(async () => {
      return { response: ok, guestFilesystemsResponse: JSON.stringify(queries.filesystems()) };
    }),
  };
}

function rareQueries({ identity, queries }: Deps) {
  return {
    getScreenshot: unary<cmd.VMIRequest, cmd.ScreenshotResponse>(async (request) => {
      const { response, value } = await attempt(async () => {
        decodeVmi(request.vmi?.vmiJson, identity);
        return fitting(await queries.screenshot());
      });
      return { response, mime: value?.mime ?? '', data: value?.data ?? noBytes };
    }),
    getVmStats: unary<cmd.VMStatsRequest, cmd.VMStatsResponse>((request) => vmStats(request, queries)),
    getSevInfo: unary<cmd.EmptyRequest, cmd.SEVInfoResponse>(async () => {
      const { response, value } = await attempt(() => queries.sevInfo());
      return { response, sevInfo: value ? jsonBytes(value) : noBytes };
    }),
    getLaunchMeasurement: unary<cmd.VMIRequest, cmd.LaunchMeasurementResponse>(async (request) => {
      const { response, value } = await attempt(async () => {
        decodeVmi(request.vmi?.vmiJson, identity);
        return queries.launchMeasurement();
      });
      return { response, launchMeasurement: value ? jsonBytes(value) : noBytes };
    }),
  };
}

const jsonBytes = (value: object) => Buffer.from(JSON.stringify(value));

/** The other end refuses larger messages with an error that says nothing about screens. */
function fitting<T extends { readonly data: Buffer }>(shot: T): T {
  if (shot.data.length <= maxScreenshotBytes) return shot;
  throw new LauncherError(
    'NOT_SUPPORTED',
    `the screen is too large for one message: ${shot.data.length} bytes, ${maxScreenshotBytes} are possible`,
  );
}
