<?php
/** What to do while Stockhold can't be reached. */
declare(strict_types=1);

namespace Stockhold\Reservation\Model\Config\Source;

use Magento\Framework\Data\OptionSourceInterface;
use Stockhold\Reservation\Hold\Settings;

class OnOutage implements OptionSourceInterface
{
    /** @return list<array{value: string, label: mixed}> */
    public function toOptionArray(): array
    {
        return [
            ['value' => Settings::REFUSE, 'label' => __('Refuse larger carts and orders')],
            ['value' => Settings::SELL_BY_MSI, 'label' => __('Sell by Magento\'s inventory alone, flag the order, book it later')],
        ];
    }
}
