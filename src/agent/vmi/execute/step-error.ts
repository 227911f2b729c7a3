import { errorCode, errorMessage } from '../../../base/index.ts';
import type { StepError } from '../../../reconcile/index.ts';

const secureBootText = 'EFI OVMF rom missing';

/**
 * Upstream ends a VMI for two kinds of failure (pkg/virt-handler/vm.go: critical network errors, and firmware that is missing); all
 * others are tried again.
 */
export function stepErrorOf(error: unknown): StepError {
  const code = errorCode(error) ?? 'FAILED';
  const message = errorMessage(error);
  if (code === 'CRITICAL_NETWORK') return { severity: 'critical', code, message: `Critical network error: ${message}` };
  if (message.includes(secureBootText)) {
    const text = `mismatch of Secure Boot setting and bootloaders: ${message}`;
    return { severity: 'critical', code: 'CRITICAL_SECURE_BOOT', message: text };
  }
  return { severity: 'retry', code, message };
}
