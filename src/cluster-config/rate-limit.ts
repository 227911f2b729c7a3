import { memberAt } from '../base/index.ts';

export interface RateLimitSettings {
  readonly qps: number;
  readonly burst: number;
}

/** `restClient.rateLimiter.tokenBucketRateLimiter` of one program's section. Kubernetes' own clients take 0 as "not given". */
export function rateLimitOf(
  configuration: unknown,
  section: 'handlerConfiguration' | 'controllerConfiguration',
  { qps, burst }: RateLimitSettings,
): RateLimitSettings {
  const bucket = memberAt(configuration, section, 'restClient', 'rateLimiter', 'tokenBucketRateLimiter');
  return {
    qps: Number(memberAt(bucket, 'qps') ?? 0) || qps,
    burst: Number(memberAt(bucket, 'burst') ?? 0) || burst,
  };
}
