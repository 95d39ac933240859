<?php
/** Refuses a table of channels and pools that can't be read. */
declare(strict_types=1);

namespace Stockhold\Reservation\Model\Config\Backend;

use Magento\Framework\App\Config\Value;
use Magento\Framework\Exception\LocalizedException;
use Stockhold\Reservation\Hold\Terms;

class GroupTerms extends Value
{
    public function beforeSave()
    {
        try {
            Terms::parseByGroup((string)$this->getValue());
        } catch (\InvalidArgumentException $error) {
            throw new LocalizedException(__('Channels and pools by customer group: %1', $error->getMessage()));
        }
        return parent::beforeSave();
    }
}
