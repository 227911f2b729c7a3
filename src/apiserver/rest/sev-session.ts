import type { Request, Response } from 'express';
import type { VirtualMachineInstance } from '../../api/index.ts';
import { copyJson } from '../../base/index.ts';
import { badRequest } from '../errors.ts';
import { type ApiObject, at, stringAt } from '../object.ts';
import { sevSession } from '../types/index.ts';
import type { VmTarget } from '../vm-subresources.ts';
import type { ApiContext, ResourceCall } from './api-context.ts';
import { parseBody } from './body.ts';
import { isDryRun, requirePut, servedType } from './request.ts';
import { virtApi } from './virt-api.ts';

/** The owner of a guest binds it to a session before it starts; its node waits for that (upstream: pkg/virt-api/rest/sev.go). Throws ApiError. */
export async function serveSevSession(
  context: ApiContext,
  target: VmTarget,
  check: (vmi: VirtualMachineInstance) => void,
  call: ResourceCall,
  request: Request,
  response: Response,
): Promise<void> {
  requirePut(request, sevSession);
  if (call.body.length === 0) throw badRequest('Request with no body: SEV session parameters are required');
  const body = parseBody(call.body, call.contentType ?? 'application/json');
  const [session, dhCert] = [stringAt(body, 'session'), stringAt(body, 'dhCert')];
  if (!session) throw badRequest('Session blob is required');
  if (!dhCert) throw badRequest('DH cert is required');
  const type = servedType('kubevirt.io', 'v1', 'virtualmachineinstances');
  const change = (current: ApiObject) => {
    check(current as unknown as VirtualMachineInstance);
    const changed = copyJson(current);
    Object.assign(at(changed.spec, 'domain', 'launchSecurity', 'sev') ?? {}, { session, dhCert });
    return changed;
  };
  const update = { ...target, subresource: undefined, change, isReplace: false };
  await context.writer.update(type, update, { user: virtApi, dryRun: isDryRun(at(body, 'dryRun')) });
  response.status(202).end();
}
