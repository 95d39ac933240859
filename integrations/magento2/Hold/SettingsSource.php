<?php
/** Where the settings of a store's website come from. */
declare(strict_types=1);

namespace Stockhold\Reservation\Hold;

interface SettingsSource
{
    public function ofStore(int $storeId): Settings;
}
